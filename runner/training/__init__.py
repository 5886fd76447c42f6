"""Training: a recipe's ``sft`` and ``ppo`` sections become real OpenRLHF runs, watched and resumed from here."""
