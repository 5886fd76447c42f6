"""The ppo phase: the policy learns from binary rewards in the recipe's own sandboxes."""
