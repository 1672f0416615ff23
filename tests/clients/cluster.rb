# redis-rb in cluster mode: repeats a round, and prints the last ID of each. See tests/fleet/cluster.rs.
require 'redis'

$stdout.sync = true
CLIENT = Redis.new(cluster: ["redis://#{ENV.fetch('NODES').split(',').first}"], timeout: 1)

def draw
  first = CLIENT.call('GETID')
  ids = CLIENT.call('MGETID', 2, '-').map(&:to_i)
  CLIENT.incr('orders')
  CLIENT.pipelined { |pipeline| 2.times { pipeline.incr('{shop}orders') } }
  CLIENT.multi { |transaction| 2.times { transaction.incr('{shop}orders') } }
  all = [first, *ids, CLIENT.call('GETID', '-')]
  abort all.inspect unless all.each_cons(2).all? { |one, next_one| one < next_one }
  all.last
end

loop do
  begin
    puts "id getid #{draw}"
  rescue Redis::BaseError => error
    puts "error #{error.class} #{error.message}"
  end
  sleep 0.02
end
