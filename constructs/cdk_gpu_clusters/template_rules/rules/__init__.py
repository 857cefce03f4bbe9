"""The rules, one a file, in one folder for each area; an area's `RULES` lists them."""
