"""The sft phase: passing episodes become a policy that speaks the agent's protocol."""
