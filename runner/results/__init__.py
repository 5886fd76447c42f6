"""What runs on disk hold: finding them, their scores item by item, and runs held against each other."""
