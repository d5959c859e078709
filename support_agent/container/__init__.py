"""The composition root: what is built from what. The only place that imports dependency_injector.

Spring's words: a class attribute is a @Bean, `Selector` is @ConditionalOnProperty, `List` is
List<Tool>, `open_container` is @PostConstruct and @PreDestroy. Each file takes the one before it
further: foundation, money, desk, talk, whole.
"""

from support_agent.container.opening import check, open_container, open_replay
from support_agent.container.talk import MONEY_TOOLS
from support_agent.container.whole import Container

__all__ = ["MONEY_TOOLS", "Container", "check", "open_container", "open_replay"]
