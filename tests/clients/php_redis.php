<?php
// phpredis, unchanged, with a running getid: `php_redis.php [check ...]`. See tests/client_matrix.rs.
declare(strict_types=1);

const HOST = '127.0.0.1';

function check(bool $holds, string $what): void
{
    if (!$holds) {
        throw new Exception($what);
    }
}

function port(string $name = ''): int
{
    return (int) getenv("MATRIX_{$name}PORT");
}

function open(?int $port = null): Redis
{
    $client = new Redis();
    check($client->connect(HOST, $port ?? port()), 'no connection');
    return $client;
}

function ascending(array $ids, int $after = -1): void
{
    foreach ($ids as $id) {
        check(is_int($id), 'no integer: ' . var_export($id, true));
        check($id > $after, "$id after $after");
        $after = $id;
    }
}

/** The library returns false, and has the server's text as its last error. */
function refused(Redis $client, string $text, string ...$words): void
{
    check($client->rawCommand(...$words) === false, implode(' ', $words) . ' was answered');
    check(str_contains((string) $client->getLastError(), $text), 'other words: ' . $client->getLastError());
    $client->clearLastError();
}

function thousand(Redis $queue): array
{
    for ($i = 0; $i < 1000; $i++) {
        $queue->rawCommand('GETID');
    }
    $ids = $queue->exec();
    check(count($ids) === 1000, 'not 1000 replies');
    ascending($ids);
    return $ids;
}

/** A failed command has an error in its place, and the others are answered. */
function mixed(Redis $queue, int $after): void
{
    $queue->rawCommand('GETID');
    $queue->rawCommand('MGETID', '0');
    $queue->rawCommand('GETID');
    [$one, $two, $three] = $queue->exec();
    check($two === false, 'MGETID 0 was answered');
    ascending([$one, $three], $after);
}

$checks = [
    'connect' => function () {
        $client = open();
        check($client->ping() === true, 'PING');
        check($client->echo('x') === 'x', 'ECHO');
        check($client->select(3) && $client->client('setname', 'matrix'), 'SELECT, CLIENT SETNAME');
        check($client->client('getname') === 'matrix', 'CLIENT GETNAME');
        $named = array_filter($client->client('list'), fn ($one) => $one['name'] === 'matrix');
        check(count($named) === 1 && (int) reset($named)['db'] === 3, 'CLIENT LIST');
        check($client->info()['redis_mode'] === 'standalone', 'INFO');
        check(isset($client->info('generator')['ids_issued']), 'INFO generator');
        check($client->config('GET', 'port')['port'] === (string) port(), 'CONFIG GET');
    },
    'getid' => function () {
        // Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows.
        $client = open();
        $ids = [];
        for ($i = 0; $i < 1024; $i++) {
            $ids[] = $client->rawCommand('GETID');
        }
        ascending($ids);
        check(count(array_unique(array_map(fn ($id) => $id % 1024, $ids))) === 1024, 'lost digits');
    },
    'mgetid' => function () {
        $client = open();
        $last = $client->rawCommand('GETID');
        $many = $client->rawCommand('MGETID', 100);
        check(count($many) === 100 && is_string($many[0]), 'not 100 strings');
        ascending(array_map('intval', $many), $last);
    },
    'error' => function () {
        $client = open();
        $before = $client->rawCommand('CLIENT', 'ID');
        refused($client, 'ERR parameters error! argv[1] = 101', 'MGETID', '101');
        refused($client, 'ERR value is not an integer or out of range', 'MGETID', 'x');
        refused($client, "ERR unknown command 'NOSUCH'", 'NOSUCH');
        ascending([$client->rawCommand('GETID')]);
        check($client->rawCommand('CLIENT', 'ID') === $before, 'the connection was not kept');
    },
    'pipeline' => function () {
        $client = open();
        $ids = thousand($client->pipeline());
        mixed($client->pipeline(), end($ids));
    },
    'multi' => function () {
        $client = open();
        $ids = thousand($client->multi());
        mixed($client->multi(), end($ids));
        // A command that cannot be queued aborts the transaction, and the library throws.
        $client->rawCommand('MULTI');
        $client->rawCommand('GETID');
        refused($client, 'wrong number of arguments', 'MGETID');
        try {
            $client->rawCommand('EXEC');
            check(false, 'EXEC was answered');
        } catch (RedisException $error) {
            check(str_contains($error->getMessage(), 'EXECABORT'), $error->getMessage());
        }
        ascending([$client->rawCommand('GETID')], end($ids));
    },
    'pool' => function () {
        // PHP's pool is its processes: fifty of them with one connection each. No process starts before all are
        // connected.
        $children = [];
        for ($i = 0; $i < 50; $i++) {
            [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
            $pid = pcntl_fork();
            check($pid >= 0, 'fork');
            if ($pid === 0) {
                $client = open();
                $client->ping();
                fwrite($theirs, 'r');
                fread($theirs, 1);
                $ids = [];
                for ($n = 0; $n < 400; $n++) {
                    $ids[] = $client->rawCommand('GETID');
                }
                fwrite($theirs, json_encode($ids) . "\n");
                exit(0);
            }
            fclose($theirs);
            $children[$pid] = $ours;
        }
        foreach ($children as $pipe) {
            check(fread($pipe, 1) === 'r', 'not connected');
        }
        foreach ($children as $pipe) {
            fwrite($pipe, 'g');
        }
        $all = [];
        foreach ($children as $pid => $pipe) {
            $ids = json_decode(fgets($pipe));
            check(count($ids) === 400, 'not 400 IDs');
            ascending($ids);
            array_push($all, ...$ids);
            pcntl_waitpid($pid, $status);
            check($status === 0, 'a process failed');
        }
        check(count(array_unique($all)) === 20000, 'an ID came twice');
    },
    'reconnect' => function () {
        [$client, $killer] = [open(), open()];
        $before = $client->rawCommand('CLIENT', 'ID');
        $last = $client->rawCommand('GETID');
        check($killer->rawCommand('CLIENT', 'KILL', 'ID', (string) $before) === 1, 'CLIENT KILL');
        ascending([$client->rawCommand('GETID')], $last);
        check($client->rawCommand('CLIENT', 'ID') !== $before, 'the same connection');
    },
    'password' => function () {
        foreach (['wrong', ['default', 'wrong']] as $wrong) {
            try {
                open(port('PASSWORD_'))->auth($wrong);
                check(false, 'a wrong password was accepted');
            } catch (RedisException $error) {
                check(str_contains($error->getMessage(), 'WRONGPASS'), $error->getMessage());
            }
        }
        $client = open(port('PASSWORD_'));
        try {
            $client->rawCommand('GETID');
            check(false, 'GETID without a password');
        } catch (RedisException $error) {
            check(str_contains($error->getMessage(), 'NOAUTH'), $error->getMessage());
        }
        foreach ([getenv('MATRIX_PASSWORD'), ['default', getenv('MATRIX_PASSWORD')]] as $right) {
            check($client->auth($right) === true, 'AUTH');
            ascending([$client->rawCommand('GETID')]);
        }
    },
    'tls' => function () {
        $client = new Redis();
        $trust = ['stream' => ['cafile' => getenv('MATRIX_CA')]];
        $client->connect('tls://' . HOST, port('TLS_'), 0, null, 0, 0, $trust);
        thousand($client->pipeline());
        // A certificate of an unknown authority is refused.
        check(!@(new Redis())->connect('tls://' . HOST, port('TLS_')), 'an untrusted certificate was accepted');
        check(str_contains(error_get_last()['message'], 'Failed to enable crypto'), error_get_last()['message']);
    },
];

echo 'version phpredis ', phpversion('redis'), "\n";
foreach (array_slice($argv, 1) ?: array_keys($checks) as $name) {
    $checks[$name]();
    echo "ok $name\n";
}
