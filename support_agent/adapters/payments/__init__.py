"""Payment gateways: one file each."""
