"""Last labels of domain names: what tells `a.vn` from a sentence without a blank behind its dot."""


def _labels(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# Two letters are a country's; the list is whole.
_COUNTRIES = _labels(
    """
    ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt
    bv bw by bz ca cc cd cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg
    er es et eu fi fj fk fm fo fr ga gb gd ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn
    hr ht hu id ie il im in io iq ir is it je jm jo jp ke kg kh ki km kn kp kr kw ky kz la lb lc li
    lk lr ls lt lu lv ly ma mc md me mg mh mk ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na nc ne
    nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl pm pn pr ps pt pw py qa re ro rs ru rw sa sb
    sc sd se sg sh si sj sk sl sm sn so sr ss st su sv sx sy sz tc td tf tg th tj tk tl tm tn to tr
    tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw
    """
)
# No sentence begins with one of these.
PLAIN = _labels(
    """
    com net org edu gov mil int info biz vn io xyz online site website tech app dev cloud click host
    asia mobi tel onion test example invalid local localhost
    """
)
# The others that are met, shop fronts and throw-away names first. One that is missing here is still
# found where a scheme, a port or a path stands with it, and cut in two where none does.
_OTHERS = _labels(
    """
    academy accountant actor adult agency agro apartments art attorney auction audio auto baby band
    bank bar bargains beauty beer best bet bid bike bingo bio black blog blue boats bond boo book
    boutique box build builders business buy buzz cab cafe cam camera camp capital car cards care
    career casa cash casino cat center ceo cfd channel chat cheap church city claims clinic clothing
    club coach codes coffee college community company computer condos construction consulting
    contact contractors cool coop country coupons courses credit creditcard cruises cyou dad dance
    date dating day deal dealer deals degree delivery democrat dental design diamonds diet digital
    direct directory discount doctor dog domains download earth eco education email energy engineer
    enterprises equipment esq estate events exchange expert exposed express fail faith family fan
    fans farm fashion feedback finance financial fish fit fitness flights florist flowers foo
    football forex forsale forum foundation fun fund furniture futbol fyi gallery game games garden
    gay gift gifts gives giving glass global gold golf graphics gratis green gripe group guide guru
    hair haus health help here hiphop history hockey holdings holiday homes horse hospital hosting
    house how icu immo inc industries ink institute insure international investments jetzt jewelry
    jobs joy kaufen kids kim kitchen kiwi land law lawyer lease legal lgbt life lifestyle lighting
    limited limo link live llc loan loans lol lotto love ltd luxe luxury maison makeup management
    market marketing markets mba media meme memorial men menu mom money monster mortgage motorcycles
    mov movie museum music name network new news nexus ngo ninja now observer one ong organic page
    parts party pay pet pharmacy phd phone photo photography photos pics pictures pink pizza place
    plumbing plus poker porn post press pro productions prof promo properties property pub qpon
    quest racing realestate realty recipes red rehab reise rent rentals repair report republican
    rest restaurant review reviews rich rip rocks rodeo rsvp run sale salon sarl save school science
    security services sex sexy shiksha shoes shop shopping show singles skin skype soccer social
    software solar solutions space sport sports spot storage store stream studio study style sucks
    supplies supply support surf surgery systems talk tattoo tax taxi team technology tennis theater
    tickets tips tires today tools top tours town toys trade trading training travel trust tube
    university uno vacations vegas ventures vet viajes video villas vin vip vision vodka vote voting
    voyage wang watch webcam wedding wiki win wine work works world wtf xin xxx yachts yoga you zip
    zone рф рус укр срб мкд бг ею дети онлайн сайт 中国 中國 公司 网络 香港 台湾 台灣 한국
    """
)
KNOWN = _COUNTRIES | PLAIN | _OTHERS
# Ends of file names that nobody takes for a place on the net.
FILES = _labels("pdf jpg jpeg png gif webp svg csv xls xlsx doc docx txt json xml html htm yaml")
