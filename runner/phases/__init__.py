"""What a recipe compiles to: one package a phase, each pure in (recipe sections, upstream results) -> a folder."""
