"""The agent: one harness for the filter, training and evaluation, so that their transcripts cannot differ."""
