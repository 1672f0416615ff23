# redis-rb, unchanged, with a running getid: `ruby_redis.rb [check ...]`. See tests/client_matrix.rs.
require 'redis'

PORT, TLS_PORT, PASSWORD_PORT = ['', 'TLS_', 'PASSWORD_'].map { |name| Integer(ENV.fetch("MATRIX_#{name}PORT")) }
PASSWORD, CA = ENV.fetch('MATRIX_PASSWORD'), ENV.fetch('MATRIX_CA')

def check(holds, what)
  raise what unless holds
end

def open(**options)
  Redis.new(port: PORT, **options)
end

def ascending(ids, after = -1)
  check(ids.all?(Integer), "no integers: #{ids.first.inspect}")
  [after, *ids].each_cons(2) { |a, b| check(b > a, "#{b} after #{a}") }
end

def refused(kind, text)
  answer = yield
rescue kind => error
  check(error.message.include?(text), "other words: #{error.message}")
else
  raise "answered: #{answer.inspect}"
end

# Sends 1000 commands together, by `pipelined` or `multi`.
def thousand(client, how)
  ids = client.public_send(how) { |pipe| 1000.times { pipe.call('GETID') } }
  check(ids.size == 1000, 'not 1000 replies')
  ascending(ids)
  # If a command fails, the library raises an error, and the connection stays usable.
  refused(Redis::CommandError, 'parameters error! argv[1] = 0') do
    client.public_send(how) { |pipe| pipe.call('GETID'); pipe.call('MGETID', 0); pipe.call('GETID') }
  end
  ascending([client.call('GETID')], ids.last)
end

CHECKS = {
  'connect' => lambda {
    client = open(db: 3, id: 'matrix')
    check(client.ping == 'PONG', 'PING')
    check(client.echo('x') == 'x', 'ECHO')
    check(client.client(:setname, 'matrix') == 'OK' && client.client(:getname) == 'matrix', 'CLIENT SETNAME')
    check(client.client(:list).any? { |one| one['name'] == 'matrix' && one['db'] == '3' }, 'CLIENT LIST')
    check(client.info['redis_mode'] == 'standalone', 'INFO')
    check(client.info('generator').key?('ids_issued'), 'INFO generator')
    check(client.config(:get, 'port') == { 'port' => PORT.to_s }, 'CONFIG GET')
    client.close
  },
  'getid' => lambda {
    # Any 1024 consecutive IDs differ in their last ten bits, so a lost digit shows.
    client = open
    ids = Array.new(1024) { client.call('GETID') }
    ascending(ids)
    check(ids.map { |id| id % 1024 }.uniq.size == 1024, 'lost digits')
  },
  'mgetid' => lambda {
    client = open
    last = client.call('GETID')
    many = client.call('MGETID', 100)
    check(many.size == 100 && many.all?(String), 'not 100 strings')
    ascending(many.map { |id| Integer(id) }, last)
  },
  'error' => lambda {
    client = open
    before = client.call('CLIENT', 'ID')
    refused(Redis::CommandError, 'ERR parameters error! argv[1] = 101') { client.call('MGETID', 101) }
    refused(Redis::CommandError, 'ERR value is not an integer or out of range') { client.call('MGETID', 'x') }
    refused(Redis::CommandError, "ERR unknown command 'NOSUCH'") { client.call('NOSUCH') }
    ascending([client.call('GETID')])
    check(client.call('CLIENT', 'ID') == before, 'the connection was not kept')
  },
  'pipeline' => -> { thousand(open, :pipelined) },
  'multi' => lambda {
    client = open
    thousand(client, :multi)
    # A command that cannot be queued aborts the transaction.
    refused(Redis::CommandError, 'wrong number of arguments') { client.multi { |pipe| pipe.call('GETID'); pipe.call('MGETID') } }
    ascending([client.call('GETID')])
  },
  'pool' => lambda {
    clients = Array.new(50) { open.tap(&:ping) }
    drawn = clients.map { |client| Thread.new { Array.new(400) { client.call('GETID') } } }.map(&:value)
    drawn.each { |ids| ascending(ids) }
    check(drawn.flatten.uniq.size == 20_000, 'an ID came twice')
    clients.each(&:close)
  },
  'reconnect' => lambda {
    client, killer = open, open
    before = client.call('CLIENT', 'ID')
    last = client.call('GETID')
    check(killer.call('CLIENT', 'KILL', 'ID', before) == 1, 'CLIENT KILL')
    ascending([client.call('GETID')], last)
    check(client.call('CLIENT', 'ID') != before, 'the same connection')
  },
  'password' => lambda {
    [{ password: 'wrong' }, { username: 'default', password: 'wrong' }].each do |options|
      refused(Redis::CommandError, 'WRONGPASS') { open(port: PASSWORD_PORT, **options).call('GETID') }
    end
    refused(Redis::CommandError, 'NOAUTH') { open(port: PASSWORD_PORT).call('GETID') }
    [{ password: PASSWORD }, { username: 'default', password: PASSWORD }].each do |options|
      ascending([open(port: PASSWORD_PORT, **options).call('GETID')])
    end
  },
  'tls' => lambda {
    thousand(open(port: TLS_PORT, ssl: true, ssl_params: { ca_file: CA }), :pipelined)
    refused(OpenSSL::SSL::SSLError, 'certificate verify failed') { open(port: TLS_PORT, ssl: true).ping }
  }
}.freeze

$stdout.sync = true
puts "version redis-rb #{Redis::VERSION}"
(ARGV.empty? ? CHECKS.keys : ARGV).each do |name|
  CHECKS.fetch(name).call
  puts "ok #{name}"
end
