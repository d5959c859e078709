"""Use cases without any LLM: functions over a transaction, thin async methods that open it."""
