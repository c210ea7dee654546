"""Does a head that sums over carries learn arithmetic sooner, and for longer numbers, than digits? See README.md."""
