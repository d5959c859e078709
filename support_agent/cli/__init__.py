"""The command line: thin over the same container as everything else."""


def main() -> None:
    """The `support-agent` command."""
    from support_agent.cli.app import start  # noqa: PLC0415 - importing the package stays free

    start()
