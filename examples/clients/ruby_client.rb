# IDs in Ruby, with redis-rb (gem install redis). Exact: Ruby integers have no limit.
require 'redis'

ids = Redis.new(port: Integer(ENV.fetch('GETID_PORT', '7890')))

order_id = ids.call('GETID')
line_ids = ids.call('MGETID', 3).map { |id| Integer(id) }
many = ids.pipelined { |pipe| 1000.times { pipe.call('GETID') } }

puts order_id
p line_ids
puts "#{many.uniq.size} different IDs, ascending: #{many == many.sort}"
