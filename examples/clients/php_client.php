<?php // IDs in PHP, with phpredis. Exact on every 64-bit PHP: an integer has 63 bits and a sign.
$ids = new Redis();
$ids->connect('127.0.0.1', (int) (getenv('GETID_PORT') ?: 7890));
$order_id = $ids->rawCommand('GETID');
$line_ids = array_map('intval', $ids->rawCommand('MGETID', 3));
$pipe = $ids->pipeline();
for ($i = 0; $i < 1000; $i++) {
    $pipe->rawCommand('GETID');
}
$many = $pipe->exec();
$sorted = $many;
sort($sorted);

echo $order_id, "\n", json_encode($line_ids), "\n";
echo count(array_unique($many)), ' different IDs, ascending: ', $many === $sorted ? 'yes' : 'no', "\n";
