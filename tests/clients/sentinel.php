<?php
// phpredis and Predis with Sentinels: `sentinel.php LIBRARY draw NAME` or `sentinel.php LIBRARY find NAME...`. LIBRARY
// is phpredis or predis. See tests/fleet/sentinel.rs.
declare(strict_types=1);

/** phpredis has no Sentinel mode: its class RedisSentinel asks one Sentinel, and the program asks the next one. */
final class PhpRedis
{
    private ?Redis $redis = null;

    public function __construct(private array $sentinels, private string $name)
    {
    }

    public function getid(): int
    {
        try {
            $this->redis ??= $this->connect();
            $id = $this->redis->rawCommand('GETID');
            if (is_int($id)) {
                return $id;
            }
            throw new RedisException((string) $this->redis->getLastError());
        } catch (RedisException $error) {
            $this->redis = null;
            throw $error;
        }
    }

    private function connect(): Redis
    {
        foreach ($this->sentinels as $sentinel) {
            [$host, $port] = explode(':', $sentinel);
            try {
                $master = (new RedisSentinel($host, (int) $port, 1, null, 0, 1))->getMasterAddrByName($this->name);
                if ($master) {
                    $redis = new Redis();
                    $redis->connect($master[0], (int) $master[1], 1, null, 0, 1);
                    return $redis;
                }
            } catch (RedisException) {
                continue;
            }
        }
        throw new RedisException('no Sentinel knows the master');
    }
}

/** Predis forgets Sentinels that do not answer; `update_sentinels` finds them again. */
final class Predis
{
    private Predis\Client $client;

    public function __construct(array $sentinels, string $name)
    {
        require_once 'Predis/autoload.php';
        $at = fn (string $sentinel) => "tcp://$sentinel?timeout=1&read_write_timeout=1";
        $options = ['replication' => 'sentinel', 'service' => $name, 'parameters' => ['read_write_timeout' => 1]];
        $this->client = new Predis\Client(array_map($at, $sentinels), $options);
    }

    public function getid(): int
    {
        return $this->client->executeCommand(Predis\Command\RawCommand::create('GETID'));
    }
}

[, $library, $mode] = $argv;
foreach (array_slice($argv, 3) as $name) {
    $sentinels = explode(',', getenv('SENTINELS'));
    $make = fn () => $library === 'predis' ? new Predis($sentinels, $name) : new PhpRedis($sentinels, $name);
    $client = $make();
    do {
        try {
            echo "id $name {$client->getid()}\n";
        } catch (Exception $error) {
            echo 'error ' . $error::class . " {$error->getMessage()}\n";
            if (str_contains($error->getMessage(), 'No sentinel server available')) {
                $client = $make();
            }
        }
        usleep(20000);
    } while ($mode === 'draw');
}
