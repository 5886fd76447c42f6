"""Tasks that others made, brought into our stored form.

``importer`` finds and judges them, ``archive`` unpacks, ``native`` reads the paper's own folders, ``definition`` and
``setup`` turn their Apptainer definitions into setup.sh.
"""
