"""Tracking in MLflow, in small parts.

``tracker`` is the face the pipeline sees and never raises. It hands the work to one ``writer`` thread, in which a
``publisher`` talks to the store. ``memory`` remembers on disk what each store already has, so that a resumed run
continues its own MLflow runs and publishing again changes nothing. ``params``, ``traces`` and ``summary`` turn our
nouns into MLflow's; ``secrets`` keeps keys out of all of them; ``quiet`` keeps MLflow off the console and within its
time limits. MLflow itself is only imported in the writer thread: it takes more than a second.
"""
