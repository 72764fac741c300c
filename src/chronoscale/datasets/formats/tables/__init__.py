"""Tables of numbers in text files: lines, columns, the roles of columns, and event streams made of them."""
