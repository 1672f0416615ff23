module getid.local/client

go 1.19
