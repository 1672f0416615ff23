<?php
// phpredis in cluster mode: repeats a round, and prints the last ID of each. A RedisCluster keeps the nodes that it
// began with, so a program makes a new one after an error, as each web request does. See tests/fleet/cluster.rs.
declare(strict_types=1);

$seeds = explode(',', getenv('NODES'));

function connect(array $seeds): RedisCluster
{
    return new RedisCluster(null, $seeds, 1, 1);
}

function draw(RedisCluster $client): int
{
    $first = $client->rawCommand('-', 'GETID', '-');
    $client->incr('orders');
    $transaction = $client->multi()->incr('{shop}orders')->incr('{shop}invoices')->exec();
    $last = $client->rawCommand('-', 'GETID', '-');
    if (!is_int($first) || !is_int($last) || !$transaction || in_array(false, $transaction, true)) {
        throw new RedisClusterException((string) $client->getLastError());
    }
    if ($first >= $last) {
        exit("$last after $first\n");
    }
    return $last;
}

$client = null;
while (true) {
    try {
        $client ??= connect($seeds);
        echo 'id getid ' . draw($client) . "\n";
    } catch (RedisException | RedisClusterException $error) {
        echo "error {$error->getMessage()}\n";
        $client = null;
    }
    usleep(20000);
}
