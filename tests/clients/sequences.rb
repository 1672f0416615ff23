# A program that counts in Redis from Ruby with redis-rb, unchanged, with a running getid: `sequences.rb`.
require 'redis'

def check(found, expected)
  raise "#{found.inspect}, expected #{expected.inspect}" unless found == expected
end

def refused(text)
  answer = yield
rescue Redis::CommandError => error
  raise "other words: #{error.message}" unless error.message.include?(text)
else
  raise "answered: #{answer.inspect}"
end

client = Redis.new(port: Integer(ENV.fetch('GETID_PORT')))
refused("no such sequence 'rb'") { client.incr('rb') }
check(client.get('rb'), nil)
check(client.call('SEQUENCE', 'CREATE', 'rb', 'START', '100'), 'OK')
check([client.incr('rb'), client.incrby('rb', 10), client.get('rb')], [100, 110, '110'])
check([client.exists?('rb'), client.type('rb'), client.ttl('rb')], [true, 'string', -1])
check([client.hincrby('rb', 'cur', 5), client.hgetall('rb')['cur']], [115, '115'])
check(client.multi { |queue| queue.incr('rb'); queue.incrby('rb', 2) }, [116, 118])
# Rails increments a counter of its cache in this way.
check(client.pipelined { |pipe| pipe.incrby('rb', 1); pipe.call('EXPIRE', 'rb', '60', 'NX') }, [119, 0])
check([client.setnx('rb', 5), client.setnx('rb2', 7), client.incr('rb2')], [false, true, 8])
refused('a sequence never goes back') { client.set('rb', 5) }
refused('it never goes back') { client.decr('rb') }
check(client.scan_each(match: 'rb*').sort, %w[rb rb2])
puts 'ok redis-rb'
