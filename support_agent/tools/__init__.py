"""The tools the model may call: thin over the services, each in its own file."""
