"""What a run means, as a page to read, and several runs side by side.

``data`` is what a report is made of, ``sections`` turns it into a ``document`` (headings, tables, figures), ``figures``
draws, and ``page`` and ``markdown`` write the same document as one HTML page and as one Markdown file. ``comparison``
makes a document of several runs. Nothing here reads a run's folder: phases/analyze and ``endless compare`` do.
"""
