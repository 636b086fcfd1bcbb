# As much of Homebrew as it takes to read a formula: prints, as JSON, what it says and the service that it names. With a
# folder as second word, its post_install is run for real, with that folder in the place of the keg.
require "etc"
require "json"
require "open3"
require "pathname"

HOMEBREW_PREFIX = "/opt/homebrew".freeze

module Language
  module Python
    module Virtualenv; end
  end
end

module Utils
  def self.safe_popen_read(environment, *command)
    output, status = Open3.capture2(environment, *command.map(&:to_s))
    raise "#{command} failed" unless status.success?

    output
  end
end

class Pathname
  alias atomic_write write
end

class Recorded
  attr_reader :facts

  def initialize(&block)
    @facts = {}
    instance_eval(&block)
  end

  def method_missing(word, *values, **options)
    @facts[word] = values.first || options
  end

  def respond_to_missing?(*) = true
end

class Formula
  class << self
    attr_reader :facts, :resources, :service_block

    def inherited(formula)
      super
      formula.instance_variable_set(:@facts, {})
      formula.instance_variable_set(:@resources, {})
    end

    %i[desc homepage url sha256 license depends_on].each do |word|
      define_method(word) { |value| @facts[word] = value }
    end

    def resource(name, &block)
      @resources[name] = Recorded.new(&block).facts
    end

    def service(&block)
      @service_block = Recorded.new(&block).facts
    end

    def test; end
  end

  attr_reader :prefix, :opt_libexec

  def initialize(keg)
    @prefix = Pathname(keg)
    @opt_libexec = @prefix/"libexec"
  end
end

load ARGV[0]
if ARGV[1]
  McpHearth.new(ARGV[1]).post_install
else
  puts JSON.generate(facts: McpHearth.facts, resources: McpHearth.resources, service: McpHearth.service_block)
end
