# Rack::Attack: ruby attack.rb HOST PORT SETTING
# The lines of the log are those that internal/lab/realserver reads.
require 'rack'
require 'rack/attack'
require 'active_support'
require 'active_support/cache'
require 'rack/handler/puma'

host, port, setting = ARGV
PAGE = "<!DOCTYPE html><title>A page</title><p>The same small page under every query.\n"
Rack::Attack.cache.store = ActiveSupport::Cache::MemoryStore.new
case setting
when 'a'
  Rack::Attack.throttle('all', limit: 60, period: 5) { |req| req.ip }
when 'b'
  Rack::Attack.throttle('all', limit: 200, period: 20) { |req| req.ip }
  Rack::Attack.throttled_response_retry_after_header = true
when 'c'
  Rack::Attack.throttle('all', limit: 110, period: 10) { |req| req.ip }
  Rack::Attack.throttled_response_retry_after_header = true
end

$stdout.sync = true
log = lambda do |app|
  lambda do |env|
    at = Time.now.to_f
    status, headers, body = app.call(env)
    after = headers['Retry-After'] || '-'
    $stdout.write(format("at=%.6f status=%d after=%s request=%s %s?%s\n", at, status, after, env['REQUEST_METHOD'], env['PATH_INFO'], env['QUERY_STRING']))
    [status, headers, body]
  end
end
page = ->(_env) { File.exist?('away') ? [503, { 'Content-Type' => 'text/html' }, []] : [200, { 'Content-Type' => 'text/html' }, [PAGE]] }
Rack::Handler::Puma.run(log.call(Rack::Attack.new(page)), Host: host, Port: port.to_i, Threads: '4:4', Silent: true)
