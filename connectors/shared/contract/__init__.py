"""What a connector is: what it declares, what it is asked, what it returns."""
