"""What a run means, as a page to read: figures, HTML and Markdown, and several runs side by side."""
