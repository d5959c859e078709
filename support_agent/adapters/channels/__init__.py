"""Ways to customers and approvers who are not waiting for an answer."""
