// The same classes as those of index.js, so that a program may use both forms.
import getid from "./index.js";

export const { Client, ClockError, Closed, GetidError, Layout, Refused, Sequence, Unavailable, Worker } = getid;
export default getid;
