// Reads any text as the `config` of a trace: it is refused with truestep::Error in one line, or
// written back the same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/scape/trace.hpp>

namespace {

using namespace truestep;

void require(bool held, const char* promise) {
    if (!held) {
        std::fprintf(stderr, "broken: %s\n", promise);
        std::abort();
    }
}

void write_and_read_back(const verify::scape::Config& config) {
    const std::string text = verify::scape::config_text(config.problem, config.steps, config.extent);
    try {
        const verify::scape::Config again = verify::scape::parse_config(text, "again");
        require(again.problem == config.problem && again.steps == config.steps &&
                    again.extent == config.extent,
                "what is written reads back the same");
        require(verify::scape::config_text(again.problem, again.steps, again.extent) == text,
                "the same is written in the same bytes");
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n%s\n", error.what(), text.c_str());
        require(false, "what is written can be read");
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        write_and_read_back(verify::scape::parse_config(std::string(data, data + size), "config"));
    } catch (const Error& error) {
        const std::string message = error.what();
        require(message.starts_with("config"), "a message says what it is about");
        require(one_line(message) == message, "a message is one line without control characters");
    }
    return 0;
}
