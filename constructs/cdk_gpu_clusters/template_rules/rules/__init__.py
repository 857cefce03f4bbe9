"""The rules, one module for each area. The registry finds them: there is no list to keep."""
