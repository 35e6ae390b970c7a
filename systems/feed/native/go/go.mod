module greenlane/feed

go 1.22
