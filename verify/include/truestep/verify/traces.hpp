#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <truestep/trace/config.hpp>
#include <truestep/trace/schema.hpp>
#include <truestep/verify/verdict.hpp>

/// The description of a system's traces, by which the tool verifies, compares and records them.
namespace truestep::verify {

/// A setting of a synthetic run, by its option: "density", without the dashes.
struct Setting {
    enum class ValueCount { one, many };

    std::string option;
    std::string value; ///< the default; "" if the option takes many values
    std::string help;
    ValueCount takes = ValueCount::one;
};

/// The settings of one synthetic run: the given ones, and the defaults for the rest.
class Settings {
  public:
    using Given = std::map<std::string, std::vector<std::string>>;

    /// Throws truestep::Error, which lists the options of `all`, if another one was given. `whose`
    /// names the system.
    Settings(const std::vector<Setting>& all, Given given, const std::string& whose);

    [[nodiscard]] bool given(const std::string& option) const { return given_.contains(option); }
    [[nodiscard]] std::string text(const std::string& option) const;
    [[nodiscard]] std::vector<std::string> texts(const std::string& option) const;
    /// These throw truestep::Error for an invalid value.
    [[nodiscard]] double number(const std::string& option) const;
    [[nodiscard]] Index integer(const std::string& option) const;
    [[nodiscard]] std::uint64_t seed(const std::string& option) const;
    [[nodiscard]] bool truth(const std::string& option) const;

    /// Reads the setting that files call `key`, by the kind of its value; `parse` reads a word.
    template <class Value, class... Parse>
    void read(std::string key, Value& value, const Parse&... parse) const {
        std::ranges::replace(key, '_', '-');
        if constexpr (sizeof...(parse) > 0)
            ((value = parse(text(key))), ...);
        else if constexpr (std::same_as<Value, bool>)
            value = truth(key);
        else if constexpr (std::floating_point<Value>)
            value = number(key);
        else if constexpr (std::unsigned_integral<Value>)
            value = seed(key);
        else
            value = static_cast<Value>(integer(key));
    }
    /// The caller checks the range.
    template <class Value>
    void read(const std::string& key, Value& value, trace::Range) const {
        read(key, value);
    }

  private:
    Given given_;
    std::map<std::string, std::string> defaults_;
};

struct SyntheticRun {
    std::filesystem::path output;
    Settings settings;
    bool intermediates = false; ///< also record the values between the phases
    trace::Replicas replicas = trace::Replicas::none;
    std::string source; ///< the command that makes the same bytes again
    std::function<void(Index step, Index steps)> progress = [](Index, Index) {};
};

struct Traces {
    std::vector<std::string>
        algorithms; ///< that `algorithm` in a config may name; empty: there are no traces
    std::function<trace::Schema(const std::string& config, const std::string& what)> schema;
    std::function<TraceVerdict(const std::filesystem::path&, const VerifyOptions&)> verify;
    std::vector<Setting> settings;
    /// Runs the reference on synthetic data and writes the trace.
    std::function<void(const SyntheticRun&)> record;
    /// The known bug that makes the values of a failed trace from its first divergence on, one
    /// line, or "". At a level with bounds.
    std::function<std::string(const TraceVerdict& verdict)> known_bug = {};
    Words words = {};
};

} // namespace truestep::verify
