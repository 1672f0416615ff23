# redis-rb in Sentinel mode: `sentinel.rb draw NAME` or `sentinel.rb find NAME...`. See tests/fleet/sentinel.rs.
require 'redis'

$stdout.sync = true
SENTINELS = ENV.fetch('SENTINELS').split(',').map do |address|
  host, port = address.split(':')
  { host: host, port: Integer(port) }
end

mode, *names = ARGV
names.each do |name|
  client = Redis.new(url: "redis://#{name}", sentinels: SENTINELS, role: :master, timeout: 1)
  loop do
    begin
      puts "id #{name} #{client.call('GETID')}"
    rescue Redis::BaseError => error
      puts "error #{error.class} #{error.message}"
    end
    break if mode == 'find'

    sleep 0.02
  end
end
