"""How settings are called in the environment."""

PREFIX = "SUPPORT_AGENT_"
TEST_PREFIX = f"{PREFIX}TEST_"  # the tests' own
