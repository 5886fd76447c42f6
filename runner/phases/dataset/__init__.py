"""From kept tasks to what training and evaluation read: the split, and exports in other tools' formats."""
