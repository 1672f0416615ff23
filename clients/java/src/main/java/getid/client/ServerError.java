package getid.client;

/** An error that a server returned as its reply. */
final class ServerError {
    /** What a client does about an error. */
    enum Remedy {
        NEXT_ADDRESS,
        LOADING,
        SAME_ADDRESS,
        NONE
    }

    final String text;
    final String code;

    ServerError(String text) {
        this.text = text;
        this.code = text.split(" ", 2)[0];
    }

    Remedy remedy() {
        switch (code) {
            case "LOADING":
                return Remedy.LOADING;
            case "MISCONF":
                return Remedy.NEXT_ADDRESS;
            case "TRYAGAIN":
            case "BUSY":
            case "EXHAUSTED":
                return Remedy.SAME_ADDRESS;
            default:
                return text.startsWith("ERR max number of clients reached") ? Remedy.NEXT_ADDRESS : Remedy.NONE;
        }
    }
}
