<?php
// A program that counts in Redis from PHP with phpredis, unchanged, with a running getid: `sequences.php`.
declare(strict_types=1);

function check(mixed $found, mixed $expected): void
{
    if ($found !== $expected) {
        throw new Exception(var_export($found, true) . ', expected ' . var_export($expected, true));
    }
}

$client = new Redis();
$client->connect('127.0.0.1', (int) getenv('GETID_PORT'));
check($client->incr('php'), false);
check(str_contains($client->getLastError(), "no such sequence 'php'"), true);
check($client->get('php'), false);
check($client->rawCommand('SEQUENCE', 'CREATE', 'php', 'START', '100'), true);
check([$client->incr('php'), $client->incrBy('php', 10), $client->get('php')], [100, 110, '110']);
check([$client->exists('php'), $client->type('php'), $client->ttl('php')], [1, Redis::REDIS_STRING, -1]);
check([$client->hIncrBy('php', 'cur', 5), $client->hGet('php', 'cur')], [115, '115']);
check($client->multi()->incr('php')->incrBy('php', 2)->get('php')->exec(), [116, 118, '118']);
check($client->pipeline()->incr('php')->get('php')->exec(), [119, '119']);
check([$client->setnx('php', '5'), $client->setnx('php2', '7'), $client->incr('php2')], [false, true, 8]);
check($client->set('php', '5'), false);
check(str_contains($client->getLastError(), 'a sequence never goes back'), true);
check($client->mget(['php', 'nope']), ['119', false]);
echo "ok phpredis\n";
