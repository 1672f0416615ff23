module getid.local/client/driver

go 1.19

require getid.local/client v0.0.0

replace getid.local/client => ../../../go
