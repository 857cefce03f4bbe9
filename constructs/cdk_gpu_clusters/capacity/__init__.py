"""What instances are bought as, where they are placed, and the reservations made here."""
