/** Unique IDs and sequence values of a getid server, returned in process. Without dependencies. */
module getid.client {
    exports getid.client;
}
