package getid.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * IDs made in process with a leased worker id.
 *
 * <p>An ID is made only in a unit of time of which the lease covers each millisecond. So two holders of one worker id
 * never make the same ID, whatever their clocks show. Almost every call counts up inside the millisecond that was last
 * checked.
 */
final class Worker extends Source {
    static final int HOLDER_BYTES_MAX = 64;
    static final long RETRY_FIRST = TimeUnit.SECONDS.toNanos(1);
    static final long RETRY_LAST = TimeUnit.SECONDS.toNanos(30);

    /** Shortest time between two renewals. */
    static final long RENEW_PAUSE = TimeUnit.SECONDS.toNanos(1);

    /** Distance by which the two clocks move apart before a renewal is due at once. */
    static final long JUMP_MS = 1000;

    private static final long NEVER = Long.MIN_VALUE / 4;

    private enum Job {
        LEASE,
        RENEW,
        RELEASE
    }

    /** A leased worker id and its interval of Unix milliseconds. */
    static final class Lease {
        final long id;
        final byte[] token;
        final long notBefore;
        final long length;
        long notAfter;

        /** End that a reply gave for what the server's clock shows, not for a LAST by this machine's clock. */
        long givenEnd;

        boolean isUsed;
        boolean isLost;

        Lease(long id, byte[] token, long notBefore, long notAfter, long lengthMs) {
            this.id = id;
            this.token = token;
            this.notBefore = notBefore;
            this.notAfter = notAfter;
            this.givenEnd = notAfter;
            this.length = TimeUnit.MILLISECONDS.toNanos(lengthMs);
        }
    }

    private final Layout layout;
    private final WorkerOptions workerOptions;
    private final byte[] holder;
    private final long counterMax;
    private final long counterStep;

    // The fast path: the millisecond that was last checked, and the unit in which the counter counts.
    private long checkedMs = -1;
    private long base;
    private long counter;
    private long returned;

    private long unit = -1;
    private long newest = -1;
    private long endUnit;
    Lease lease;
    private Lease unfit;
    private Job job = Job.LEASE;
    private boolean isAhead;
    private boolean isLastReal;
    private long sent = NEVER;
    private long triedAt = NEVER;
    private long leaseDelay = RETRY_FIRST;
    private boolean hasDrift;
    private long driftMs;
    private long clockAheadMs;
    private long leases;
    private long renewals;

    Worker(Client client, String pool, Layout layout, WorkerOptions options) {
        super(client, pool, List.of(layout, options));
        this.layout = layout;
        this.workerOptions = options;
        this.holder = holderName(options.name == null ? hostName() : options.name);
        this.counterMax = (1L << layout.counter) - 1;
        this.counterStep = layout.isCounterFirst ? 1L << layout.worker : 1;
    }

    private static String hostName() {
        try {
            return InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException e) {
            return "";
        }
    }

    /** Returns the name of a holder as the server takes it: at most 64 bytes of printable ASCII, or none. */
    static byte[] holderName(String name) {
        byte[] whole = name.getBytes(StandardCharsets.UTF_8);
        byte[] cleaned = whole.clone();
        for (int i = 0; i < cleaned.length; i++) {
            cleaned[i] = cleaned[i] >= 33 && cleaned[i] <= 126 ? cleaned[i] : (byte) '_';
        }
        if (cleaned.length <= HOLDER_BYTES_MAX) {
            return cleaned;
        }
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(whole);
            String end = String.format(java.util.Locale.ROOT, "-%02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3]);
            byte[] cut = Arrays.copyOf(cleaned, HOLDER_BYTES_MAX);
            System.arraycopy(Connection.bytes(end), 0, cut, 55, 9);
            return cut;
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("each Java runtime has SHA-256", e);
        }
    }

    @Override
    public long next() {
        lock.lock();
        try {
            if (clock.millis() == checkedMs && counter < counterMax) {
                counter++;
                returned++;
                return base + counter * counterStep;
            }
        } finally {
            lock.unlock();
        }
        return takeWithin(1, client.timeout)[0];
    }

    @Override
    public Map<String, Number> stats() {
        return client.locked(() -> {
            Map<String, Number> stats = new LinkedHashMap<>();
            stats.put("values", returned);
            stats.put("worker_id", lease == null ? null : lease.id);
            stats.put("not_before_ms", lease == null ? null : lease.notBefore);
            stats.put("not_after_ms", lease == null ? null : lease.notAfter);
            stats.put("leases", leases);
            stats.put("renewals", renewals);
            stats.put("failures", failures);
            stats.put("clock_ahead_ms", clockAheadMs);
            return stats;
        });
    }

    @Override
    boolean isWarm(int n) {
        isWanted = true;
        return lease != null;
    }

    @Override
    void draw(Waiter waiter) {
        while (waiter.need > 0 && lease != null && make(waiter)) {
            continue;
        }
    }

    /** Makes an ID and returns true, or returns false if the lease covers no further unit. */
    private boolean make(Waiter waiter) {
        long nowMs = clock.millis();
        if (nowMs != checkedMs) {
            checkClocks(nowMs);
        }
        long nextUnit = Math.max(Math.floorDiv(nowMs - layout.epochMs, (long) layout.unitMs), unit);
        long nextCounter = nextUnit == unit ? counter + 1 : 0;
        if (nextCounter > counterMax) {
            nextUnit++;
            nextCounter = 0;
        }
        if (nextUnit >= endUnit) {
            checkedMs = -1;
            if (nextUnit >= 1L << layout.time) {
                throw new RefusedException(
                        this + ": the time of the layout ended: take one with a later epoch or more bits of time", "");
            }
            return false;
        }
        base = layout.compose(nextUnit, lease.id, 0);
        unit = nextUnit;
        newest = nextUnit;
        counter = nextCounter;
        checkedMs = nowMs;
        clockAheadMs = 0;
        lease.isUsed = true;
        returned++;
        waiter.put(base + counter * counterStep);
        return true;
    }

    /** Makes a renewal due at once if the wall clock was set. Compares both clocks. */
    private void checkClocks(long nowMs) {
        long now = clock.nanos();
        long drift = nowMs - TimeUnit.NANOSECONDS.toMillis(now);
        boolean hasJumped = hasDrift && Math.abs(drift - driftMs) > JUMP_MS;
        if (hasJumped && canRenew()) {
            client.schedule(this, Math.max(now, triedAt + RENEW_PAUSE));
        }
        if (!hasDrift || hasJumped) {
            hasDrift = true;
            driftMs = drift;
        }
    }

    /** Starts the lease or renewal without which no ID can be made. */
    @Override
    void want() {
        if (hasJob) {
            return;
        }
        long from = Math.max(clock.nanos(), retryAt);
        if (canRenew()) {
            from = Math.max(from, triedAt + RENEW_PAUSE);
        }
        if (!isDue || due > from) {
            client.schedule(this, from);
        }
    }

    private void wantNow() {
        client.schedule(this, clock.nanos());
    }

    private boolean canRenew() {
        return lease != null && !lease.isLost;
    }

    /** Returns LAST: the last millisecond of the newest ID's unit. */
    private long last() {
        return lease.isUsed ? layout.unitEndMs(newest) : lease.notBefore - 1;
    }

    @Override
    void forget() {
        lease = null;
        unfit = null;
        checkedMs = -1;
        isLastReal = false;
        triedAt = NEVER;
        hasDrift = false;
        if (waiters.isEmpty()) {
            client.unschedule(this);
        }
    }

    @Override
    List<List<byte[]>> stop() {
        List<List<byte[]>> requests = new ArrayList<>();
        if (canRenew()) {
            requests.add(releaseOf(lease, last()));
        }
        if (unfit != null) {
            requests.add(releaseOf(unfit, unfit.notBefore - 1));
        }
        forget();
        return requests;
    }

    private List<byte[]> releaseOf(Lease one, long last) {
        return words("WORKERID", "RELEASE", name, one.id, one.token, "LAST", Math.max(last, 0));
    }

    // Jobs.

    @Override
    List<byte[]> begin(long serial) {
        sent = clock.nanos();
        if (unfit != null) {
            job = Job.RELEASE;
            return releaseOf(unfit, unfit.notBefore - 1);
        }
        if (canRenew()) {
            return beginRenewal();
        }
        if (waiters.isEmpty() && !isWanted) {
            return null;
        }
        job = Job.LEASE;
        List<byte[]> request = words("WORKERID", "LEASE", name);
        if (holder.length > 0) {
            request.addAll(words("NAME", holder));
        }
        if (workerOptions.ttl != null) {
            request.addAll(words("TTL", workerOptions.ttl.getSeconds()));
        }
        return request;
    }

    private List<byte[]> beginRenewal() {
        job = Job.RENEW;
        triedAt = sent;
        long last = last();
        long nowMs = clock.millis();
        isAhead = nowMs >= lease.notAfter && nowMs - 1 > last && !isLastReal;
        isLastReal = false;
        return words("WORKERID", "RENEW", name, lease.id, lease.token, "LAST", Math.max(isAhead ? nowMs - 1 : last, 0));
    }

    @Override
    void apply(Object reply) throws ConnectionLost {
        switch (job) {
            case RELEASE:
                applyRelease(reply);
                break;
            case LEASE:
                applyLease(parseLease(reply));
                break;
            default:
                applyRenewal(reply);
        }
    }

    private void applyRelease(Object reply) throws ConnectionLost {
        if (!"OK".equals(reply)) {
            throw unexpected("WORKERID RELEASE " + name, "OK");
        }
        unfit = null;
        succeeded();
        client.event(GetidEvent.Kind.RELEASED, name, "", 0);
        if (!waiters.isEmpty()) {
            wantNow();
        }
    }

    private void applyLease(Lease found) {
        succeeded();
        leaseDelay = RETRY_FIRST;
        isWanted = false;
        if (found.id >= 1L << layout.worker) {
            refuseUnfit(found);
            return;
        }
        lease = found;
        leases++;
        long firstUnit = Math.max(0, -Math.floorDiv(layout.epochMs - lease.notBefore, (long) layout.unitMs));
        unit = Math.max(newest, firstUnit - 1);
        counter = counterMax;
        setEnd();
        triedAt = NEVER;
        hasDrift = false;
        checkClocks(clock.millis());
        client.event(GetidEvent.Kind.LEASED, name, "", 0);
        scheduleRenewal();
        if (clock.millis() >= lease.notAfter) {
            wantNow();
        } else {
            finishAll(() -> null);
        }
    }

    private void refuseUnfit(Lease found) {
        unfit = found;
        lease = null;
        checkedMs = -1;
        String message = String.format(java.util.Locale.ROOT,
                "%s: worker id %d does not fit the %d bits of the layout: set 'worker-pool %s size %d' on the server, "
                        + "or take a layout with more bits",
                this, found.id, layout.worker, name, 1L << layout.worker);
        finishAll(() -> new RefusedException(message, ""));
        wantNow();
    }

    private void scheduleRenewal() {
        client.schedule(this, sent + Math.max(lease.length / 3, RENEW_PAUSE));
    }

    private void setEnd() {
        endUnit = Math.min(Math.floorDiv(lease.notAfter - layout.epochMs, (long) layout.unitMs), 1L << layout.time);
        checkedMs = -1;
    }

    private void applyRenewal(Object reply) throws ConnectionLost {
        long[] found = integers(reply, 0);
        if (found == null || found[0] < lease.notAfter) {
            throw unexpected("WORKERID RENEW " + name, "an array with an end that is not before " + lease.notAfter);
        }
        succeeded();
        lease.notAfter = found[0];
        if (!isAhead) {
            lease.givenEnd = found[0];
        }
        renewals++;
        isWanted = false;
        setEnd();
        client.event(GetidEvent.Kind.RENEWED, name, "", 0);
        scheduleRenewal();
        long nowMs = clock.millis();
        if (nowMs < lease.notAfter) {
            clockAheadMs = 0;
            finishAll(() -> null);
            return;
        }
        long difference = nowMs - lease.givenEnd;
        clockAheadMs = difference;
        String message = String.format(java.util.Locale.ROOT,
                "%s: this machine's clock is at least %.3f s ahead of the server's, past the end of a lease that "
                        + "was just given: set the clock (timedatectl set-ntp true), or give the pool a lease that is "
                        + "longer than the difference",
                this, difference / 1e3);
        client.event(GetidEvent.Kind.CLOCK, name, message, difference);
        finishAll(() -> new ClockException(message, difference));
    }

    @Override
    boolean refuse(ServerError error) {
        if (job == Job.RELEASE) {
            // Whatever the reason: the id is free at the end of its lease.
            unfit = null;
        } else if (job != Job.RENEW || lease == null) {
            return false;
        } else if (List.of("EXPIRED", "REVOKED", "WRONGTOKEN").contains(error.code)) {
            lease.isLost = true;
            failures++;
            lastFailure = error.text;
            client.event(GetidEvent.Kind.LEASE_LOST, name, error.text, 0);
        } else if (isAhead && error.remedy() == ServerError.Remedy.NONE) {
            isLastReal = true;
            wantNow();
            return true;
        } else {
            return false;
        }
        if (!waiters.isEmpty()) {
            wantNow();
        }
        return true;
    }

    @Override
    long retryDelay(long delay, boolean canLose) {
        if (job == Job.RENEW) {
            return Math.max(delay, triedAt + RENEW_PAUSE - clock.nanos());
        }
        if (job == Job.LEASE && canLose) {
            long wait = leaseDelay;
            leaseDelay = Math.min(2 * wait, RETRY_LAST);
            return wait;
        }
        return delay;
    }

    @Override
    boolean isNeeded() {
        return canRenew() && clock.millis() < lease.notAfter;
    }

    @Override
    GetidEvent.Kind failureKind() {
        return job == Job.RENEW ? GetidEvent.Kind.RENEW_FAILED : GetidEvent.Kind.FETCH_FAILED;
    }

    private Lease parseLease(Object reply) throws ConnectionLost {
        long[] found = integers(reply, 0, 2, 3, 4);
        Object token = found == null ? null : ((List<?>) reply).get(1);
        if (!(token instanceof byte[]) || ((byte[]) token).length < 1 || ((byte[]) token).length > 256
                || found[1] >= found[2] || found[3] > TimeUnit.DAYS.toMillis(365)) {
            throw unexpected("WORKERID LEASE " + name,
                    "an id, a token, not_before, a later not_after and a length in ms");
        }
        return new Lease(found[0], (byte[]) token, found[1], found[2], found[3]);
    }

    @Override
    public String toString() {
        return "worker pool '" + name + "'";
    }
}
