"""What a customer wants: patterns over folded words, from the most to the least particular."""

import re
from dataclasses import dataclass
from enum import StrEnum

from support_agent.adapters.models.offline.entities import Entities, entities_of
from support_agent.adapters.models.offline.folding import compose
from support_agent.domain.consent import Consent, classify


class Intent(StrEnum):
    ORDER_STATUS = "order_status"
    ELIGIBILITY = "eligibility"
    REFUND_REQUEST = "refund_request"
    CONFIRM = "confirm"
    DECLINE = "decline"
    REFUND_STATUS = "refund_status"
    CANCEL_REFUND = "cancel_refund"
    CANCEL_ORDER = "cancel_order"
    CANCEL = "cancel"  # take back, but not said what
    ABOUT_CANCEL = "about_cancel"  # whether it can be taken back, or that it shall not be
    PROGRESS = "progress"  # "status?": of what was spoken of last
    PROCESS = "process"  # "how long?", "who decides?": of the same
    RETURNABLE_ITEMS = "returnable_items"
    TOTAL_REFUND = "total_refund"
    POLICY = "policy"
    LIST_ORDERS = "list_orders"
    PERSON = "person"
    GREETING = "greeting"
    THANKS = "thanks"
    DETAIL = "detail"  # only an order or an amount: it belongs to what was asked before
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Understanding:
    """One message, read by itself."""

    intent: Intent
    entities: Entities
    consent: Consent


def understand(text: str) -> Understanding:
    """Read one message by itself; what it refers back to is not known here."""
    entities = entities_of(text)
    consent = classify(compose(text))
    intent = _intent(entities, consent)
    if intent is Intent.REFUND_REQUEST and consent is Consent.NO:
        intent = Intent.CANCEL_REFUND  # "đừng hoàn nữa"
    return Understanding(intent=intent, entities=entities, consent=consent)


def _compile(*phrases: str) -> re.Pattern[str]:
    """Phrases of folded words: a space may be missing, `<3>` is up to 3 words, `*` an open end."""
    return re.compile("|".join(map(_phrase, phrases)))


def _phrase(phrase: str) -> str:
    open_end = phrase.endswith("*")
    pattern = phrase.removesuffix("*").replace(" ", " ?")
    pattern = re.sub(r"<(\d)>(?: \?)?", r"(?: \\w+){0,\1} ?\\b", pattern)
    return rf"\b(?:{pattern})" + ("" if open_end else r"\b")


_ME = "(?:toi|minh|em|anh|chi|tui|tao|con|me)"
_BACK = "(?:hoan|doi tra|tra hang|tra lai|hoan tra|lay lai tien|refund|return)"
_STAFF = "(?:nhan vien|nguoi that|quan ly|tu van vien|tong dai|con nguoi|cskh|cham soc khach hang)"
# "hoàn toàn", "hoàn thành", "hoàn hảo" speak of no money.
_REFUND = r"hoan(?! (?:toan(?! bo)|thanh|hao|chinh|tat|canh|nghenh|thien)\b)"

_WHO_ARE_YOU = _compile(
    "(?:ban|may) la (?:ai|gi|nguoi|bot|robot|may)",
    "(?:ban|day|shop) co phai<2>(?:nguoi|bot|robot|may|ai)",
    "ai dang (?:noi|tra loi|chat)", "(?:giup|lam) duoc (?:nhung )?gi",
    "ban (?:co the )?(?:giup|lam)<3>gi",
    "(?:are|r) (?:you|u)<3>(?:human|bot|robot|ai|real|person|machine)",
    "(?:who|what) are you", "what can you<2>do", "am i (?:talking|speaking|chatting) (?:to|with)",
)  # fmt: skip
_NO_PERSON = _compile(
    "khong (?:can|muon|phai) (?:gap|noi chuyen voi|lien he|chuyen)(?: den| toi| sang| cho)?"
    rf" {_STAFF}",
    "(?:don t|do not) (?:need|want)<3>(?:human|person|agent|staff)",
)
_PERSON = _compile(
    rf"(?:gap|noi chuyen|chat voi|ket noi|lien he|can|chuyen|cho|goi|nho)<4>{_STAFF}",
    "nguoi that", "gap (?:nguoi|ai do|sep)", "noi chuyen voi nguoi", "khieu nai",
    "complain(?:t|ts)?",
    "human", "real person", "live (?:agent|person|chat)", "customer service", "representative",
    "(?:talk|speak|chat|connect|transfer)<4>(?:person|someone|somebody|agent|manager|staff|support)",
)  # fmt: skip
_ABOUT_CANCEL = _compile(
    "(?:dung|khong|don t|do not)<1>(?:huy|rut|cancel|withdraw)", "khong doi y",
    "(?:huy|rut|cancel)<4>duoc (?:khong|chu|a|ha|hong)", "(?:co|con)<1>(?:huy|rut) duoc*",
    "(?:co|con) the (?:huy|rut)",
    "(?:lam sao|the nao|cach)<3>(?:huy|rut)*", "(?:neu|lo)<4>(?:huy|rut|cancel)*",
    "(?:can|could|may|do|should) i<2>(?:cancel|withdraw|undo)*", "if i<2>(?:cancel|withdraw|undo)*",
    "(?:possible|able|late|how) to (?:cancel|withdraw|undo)*",
)  # fmt: skip
# "huỷ giúp mình được không" asks for it, politely.
_PLEASE_CANCEL = _compile(rf"(?:huy|rut|cancel)<2>(?:giup|ho|dum|gium|cho) {_ME}")
_CANCEL = _compile(
    "huy", "cancel(?:led|ling)?", "rut lai", "thu hoi", "undo", "revoke", "withdraw",
    "take (?:it|that) back", "doi y", "chang(?:e|ed) my mind", "het muon",
    "khong (?:can|muon)<1>nua", "no longer (?:need|want) (?:it|that|this)",
    "(?:don t|do not) (?:need|want) (?:it|that|this) any ?more",
)  # fmt: skip
_CANCEL_REFUND = _compile(
    "(?:huy|rut lai|rut|thu hoi|xoa)(?: (?:giup|cho|bo|di|toi|minh|em|cai|lenh|the|viec|het|luon))*"
    " (?:yeu cau|lenh hoan|hoan tien|hoan)",
    "bo (?:cai )?yeu cau", "khong<3>hoan<2>nua", "khong (?:can|muon) hoan(?: tien)?(?: nua)?",
    "cancel<4>(?:refund|request)", "withdraw<4>(?:refund|request)",
    "(?:don t|do not|no longer) want<3>refund",
)  # fmt: skip
_CANCEL_ORDER = _compile("huy<2>don", "huy don hang", "cancel<2>order")
_PLEASE_REFUND = _compile(
    rf"{_REFUND}<5>(?:giup|ho|dum|gium) {_ME}", "(?:can|could|would|will) (?:you|u)<3>refund*",
)  # fmt: skip
_POLICY = _compile(
    "chinh sach", "quy dinh", "dieu kien (?:de )?(?:duoc )?(?:hoan|doi|tra)",
    rf"{_BACK}<3>trong (?:vong )?(?:bao lau|may ngay|bao nhieu ngay)",
    "(?:bao nhieu|may) ngay<5>(?:hoan|doi|tra)*",
    "trong (?:bao lau|may ngay|bao nhieu ngay)<3>(?:hoan|doi|tra)*",
    "polic(?:y|ies)", "return window", "how (?:long|many days)<7>(?:return|refund)*",
    "(?:refund|return)s? (?:rules|terms|conditions)",
)  # fmt: skip
_DESPITE_POLICY = _compile(
    "(?:bo qua|mac ke|bat chap|quen|khong can biet)<3>(?:chinh sach|quy dinh)",
    "(?:ignore|forget|despite|regardless of)<5>(?:polic(?:y|ies)|rules)",
)
_RETURNABLE_ITEMS = _compile(
    f"(?:mon|san pham|cai|hang|thu|do) (?:nao|gi)<4>{_BACK}*",
    f"{_BACK}<2>(?:duoc )?(?:nhung |cac )?(?:mon|san pham|cai|thu) (?:nao|gi)",
    f"{_BACK} duoc (?:nhung )?gi", f"duoc {_BACK} (?:nhung )?gi",
    "(?:which|what) (?:items?|ones?|products?|things?|lines?|parts?)<6>(?:refund|return)*",
)  # fmt: skip
_TOTAL_REFUND = _compile(
    rf"(?:tong cong|tong so|tat ca|ca thay|het thay)<5>{_BACK}<4>(?:bao nhieu|may)",
    rf"{_BACK}<4>(?:tong cong|tat ca|ca thay)(?: la)? (?:bao nhieu|may)",
    "how much<6>(?:in total|altogether|overall|in all)", "total refund",
)  # fmt: skip
_PROGRESS = _compile(
    "^status$", "where(?: is| s)? (?:it|that)", "(?:o )?dau roi$",
    "(?:what s|whats|what is|how is|how s)<1>(?:status|going|progress)",
    "(?:any|an) (?:news|updates?|progress)", "what(?: s| is)? happening",
    "what happens (?:now|next)",
    "(?:is|are|was) (?:it|that|this|we)<2>(?:done|ready|finished|approved|processed|through|paid)",
    "(?:done|approved|processed|finished) yet", "(?:xong|duyet|duoc|roi) (?:het )?chua",
    "(?:sao|den dau|toi dau|the nao|ra sao) roi", "^(?:the|vay|gio|bay gio)<2>(?:sao|the nao)",
    "co (?:tin|ket qua)<3>chua", "^(?:trang thai|tinh trang|tien do)",
)  # fmt: skip
# The reasons stand in the order's verdict.
_WHY = _compile(
    "^(?:why|tai sao|vi sao|sao lai)", "(?:tai|vi) sao$", "sao (?:lai )?khong(?: duoc)?$"
)
_PROCESS = _compile(
    "how (?:long|soon|fast|many days|much time)", "who<2>(?:approv|decid|check|review|handl)*",
    "^when(?: will| do| does| can)? (?:it|that|this|i)", "(?:bao lau|khi nao|bao gio|may ngay)$",
    "(?:mat|cho|can|trong|khoang|het)<2>(?:bao lau|may ngay|bao nhieu ngay)",
    "(?:bao lau|khi nao|bao gio|chung nao)<3>(?:xong|duoc|co|nhan|duyet|ve)*",
    "^(?:bao lau|khi nao|bao gio)",
    "ai (?:se |la nguoi |la |phai )*(?:duyet|xet|quyet|xu ly|kiem tra)*",
)  # fmt: skip
_ELIGIBILITY = _compile(
    "(?:co|lieu)<2>(?:duoc|the)<2>(?:hoan|tra hang|doi tra|tra lai)(?!<6>chua)*",
    "con (?:co )?(?:duoc|the)<2>(?:hoan|tra hang|doi tra|tra lai)*",
    rf"{_BACK}<6>duoc (?:khong|hong|chu|hay|chua nhi)", rf"duoc {_BACK}<6>(?:khong|bao nhieu)",
    rf"{_BACK}(?: tien)? duoc (?:khong|bao nhieu|het|chu)", rf"{_BACK}(?: tien)? duoc$",
    "du dieu kien", "con han", "con kip", "too late", "(?:het|qua) han<3>(?:hoan|doi|tra|chua)",
    "han (?:chot |cuoi )?(?:cung )?(?:de )?(?:yeu cau )?(?:hoan|doi tra)",
    "(?:can|could|may|able to) (?!you|u )<5>(?:refund|return|money back)*",
    "(?:refundable|returnable|eligible|eligibility|qualif(?:y|ies))", "be (?:refunded|returned)",
    "(?:still (?:get|return)|allowed to|entitled to)<3>(?:a )?(?:return|refund|it)",
    "how much<5>(?:refund|back)*", "how much<3>i (?:get|receive)",
    "(?:duoc|nhan|lay)(?: lai)? bao nhieu",
    "(?:last day|deadline)<4>(?:refund|return)*",
)  # fmt: skip
_REFUND_STATUS = _compile(
    "hoan<6>chua", "chua (?:thay |duoc |nhan |co |ve )*(?:hoan|tien)",
    f"tien (?:hoan )?(?:cua )?(?:{_ME} )?<1>dau",
    "tien<3>chua", "tien<3>(?:bao lau|bao gio|khi nao)", "(?:duyet|xu ly)(?: xong)? chua",
    "(?:bao gio|khi nao|chung nao|bao lau)(?! <2>(?:het|han))<5>(?:hoan|tien|refund)*",
    "(?:trang thai|tinh trang|tien do|kiem tra|xem|theo doi)<3>(?:hoan|yeu cau|refund)*",
    "(?:hoan|yeu cau)<5>(?:den dau|toi dau|ra sao|sao roi|the nao roi)",
    "(?:refund|return) (?:request )?status", "status of (?:my|the|this) (?:refund|request)",
    "where(?: is| s)?<1>(?:money|refund)", "when (?:will|do|does|can|should)<5>(?:money|refund)*",
    "(?:has|have|did|was|is)<5>refund(?:ed)?<4>(?:yet|processed|done|approved|through|issued|sent)",
    "refund(?:ed)? yet", "(?:haven t|have not|didn t|did not)<4>(?:money|refund)",
    "(?:track|check)(?: on)?<2>refund", "(?:waiting for|update<2>on)<2>(?:money|refund)",
    "how is<2>refund", "refund (?:going|coming along)",
)  # fmt: skip
_ORDER_STATUS = _compile(
    "(?:don|hang|kien|goi)<6>(?:o dau|dau roi|den dau|toi dau|den chua|toi chua|noi chua"
    "|sao roi|the nao|ra sao|dau the|dau vay)",
    "(?:don|hang)<3>dau", "giao<5>chua", "(?:ship|gui)<3>chua",
    "(?:trang thai|tinh trang|theo doi|kiem tra|tra cuu|thong tin|chi tiet)<3>"
    "(?:don(?! hang cua)|van chuyen|giao hang|hang cua)",
    "(?:bao gio|khi nao|chung nao|bao lau)<6>(?:giao|nhan|hang|den|toi noi|toi$)*",
    "(?:da|dang) giao", "chua (?:nhan|thay|co) (?:duoc )?(?:hang|don)",
    "where(?: is| s)?<4>(?:order|package|parcel|stuff)", "track<4>", "order status",
    "status<3>order", "(?:has|is|was|did|when)<6>(?:ship|deliver|arriv)*",
    "when will<5>(?:come|get here|be here)", "details?<3>order", "look up", "check(?: on)?<2>order",
    "(?:haven t|have not|didn t|did not)<3>(?:received?|got|get)<2>(?:order|package|parcel)",
)  # fmt: skip
_LIST_ORDERS = _compile(
    "danh sach<2>don", "(?:cac|nhung|tat ca|liet ke|may)(?: ca)? don", "don(?: hang)? nao",
    f"{_ME} co<3>don", "lich su (?:mua|don|dat)*", "da (?:dat|mua)<2>gi",
    f"don hang (?:cua {_ME}|gan day)",
    f"don cua {_ME}", "xem(?: lai)? don(?: hang)?", "list<3>orders?", "my<1>orders?",
    "(?:what|which|show|see|all)<4>orders?", "order history", "recent orders?", "orders",
)  # fmt: skip
_REFUND_REQUEST = _compile(
    rf"{_REFUND}", "hoan tien*", "hoan lai*", "(?:tra|lay) lai<3>tien", "tra tien lai", "doi tra",
    "(?:tra|gui tra) (?:lai )?hang", "tra lai<3>(?:don|san pham|mon)", "refund(?:s|ed|ing)?",
    "money back", "(?:want|like|need|going) to (?:return|send back)", "return<4>(?:order|item|it)",
)  # fmt: skip
_GREETING = _compile(
    "xin chao", "^e? ?chao", f"chao (?:shop|ban|ad|moi|{_ME})", "hello+", "^hi+", "hey+", "^he lo",
    "alo+", "good (?:morning|afternoon|evening|day)", "shop oi", "ad oi",
)  # fmt: skip
_THANKS = _compile(
    "cam on", "thanks?", "thank (?:you|u)", "cheers", "(?:good ?)?bye", "tam biet",
    "hen gap lai", "see you",
)  # fmt: skip
# Says no yes to a quote, but goes on where nothing waits for one.
_GO_ON = _compile(
    "(?:go on|continue|next|keep going)", "(?:tiep|tiep tuc|lam tiep|tiep theo|tiep di)",
    "don (?:tiep|tiep theo|ke tiep|con lai|kia)",
)  # fmt: skip

# The first that fits counts.
_CANCELS: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    (Intent.CANCEL_REFUND, _CANCEL_REFUND),
    (Intent.CANCEL_ORDER, _CANCEL_ORDER),
)
# These need what was said before; they count where nothing more particular is said.
_REFERRING: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    (Intent.CANCEL, _CANCEL),
    (Intent.PROGRESS, _PROGRESS),
    (Intent.PROCESS, _PROCESS),
    (Intent.ELIGIBILITY, _WHY),
)
_ABOUT_ORDERS: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    (Intent.REFUND_REQUEST, _PLEASE_REFUND),
    (Intent.TOTAL_REFUND, _TOTAL_REFUND),
    (Intent.RETURNABLE_ITEMS, _RETURNABLE_ITEMS),
    (Intent.ELIGIBILITY, _ELIGIBILITY),
    (Intent.REFUND_STATUS, _REFUND_STATUS),
    (Intent.REFUND_REQUEST, _REFUND_REQUEST),
    (Intent.ORDER_STATUS, _ORDER_STATUS),
    (Intent.LIST_ORDERS, _LIST_ORDERS),
)


def _intent(entities: Entities, consent: Consent) -> Intent:
    words = entities.words
    return (
        _about_the_talk(words)
        or _cancelling(words)
        or _about_rules_or_orders(entities)
        or next((intent for intent, pattern in _REFERRING if pattern.search(words)), None)
        or _small_talk(entities, consent)
    )


def _about_the_talk(words: str) -> Intent | None:
    if _WHO_ARE_YOU.search(words):
        return Intent.GREETING
    return Intent.PERSON if _PERSON.search(words) and not _NO_PERSON.search(words) else None


def _cancelling(words: str) -> Intent | None:
    if _ABOUT_CANCEL.search(words) and not _PLEASE_CANCEL.search(words):
        return Intent.ABOUT_CANCEL
    return next((intent for intent, pattern in _CANCELS if pattern.search(words)), None)


def _about_rules_or_orders(entities: Entities) -> Intent | None:
    words = entities.words
    # A policy question that names an order and asks for its verdict is about that order.
    about_one = bool(entities.order_ids) and _ELIGIBILITY.search(words) is not None
    if not about_one and _POLICY.search(words) and not _DESPITE_POLICY.search(words):
        return Intent.POLICY
    for intent, pattern in _ABOUT_ORDERS:
        if pattern.search(words):
            return Intent.ORDER_STATUS if _one_of_many(intent, entities) else intent
    return None


def _one_of_many(intent: Intent, entities: Entities) -> bool:
    return intent is Intent.LIST_ORDERS and bool(entities.order_ids)


def _small_talk(entities: Entities, consent: Consent) -> Intent:
    if entities.any:
        return Intent.DETAIL
    if consent is Consent.NO:
        return Intent.DECLINE
    if _THANKS.search(entities.words):
        return Intent.THANKS
    if consent is Consent.YES or _GO_ON.search(entities.words):
        return Intent.CONFIRM
    return Intent.GREETING if _GREETING.search(entities.words) else Intent.UNKNOWN
