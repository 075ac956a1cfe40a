// Reads TRUESTEP_SIMULATED_BUG, and changes the PTX, call or block size that it names.
#include "known_bugs.hpp"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <vector>

#include <truestep/simulator/fault.hpp>

namespace truestep::simulator {

namespace {

constexpr const char* variable = "TRUESTEP_SIMULATED_BUG";

/// The variable's parts between bars; read once.
const std::vector<std::string>& asked() {
    static const std::vector<std::string> parts = [] {
        std::vector<std::string> all;
        const char* const given = std::getenv(variable);
        for (std::string left = given == nullptr ? "" : given; !left.empty();) {
            const std::size_t bar = left.find('|');
            all.push_back(left.substr(0, bar));
            left = bar == std::string::npos ? "" : left.substr(bar + 1);
        }
        const bool of_runtime = all.size() == 2 && (all[0] == "call" || all[0] == "threads");
        if (!all.empty() && !of_runtime && all.size() != 3 && all.size() != 4)
            throw Fault(std::string(variable) + " is '" + given +
                        "'; it must be KERNEL|NUMBER|REGEX|REPLACEMENT, call|FUNCTION or threads|NUMBER");
        return all;
    }();
    return parts;
}

} // namespace

std::string with_known_bug(std::string_view ptx) {
    const auto& parts = asked();
    if (parts.size() < 3)
        return std::string(ptx);
    const int wanted = std::stoi(parts[1]);
    const std::regex expression(parts[2]);
    const std::string replacement = parts.size() == 4 ? parts[3] : "";
    std::string result;
    bool within = false;
    int found = 0;
    while (!ptx.empty()) {
        const std::size_t end = std::min(ptx.find('\n'), ptx.size() - 1);
        std::string line(ptx.substr(0, end + 1));
        ptx.remove_prefix(end + 1);
        if (line.find(".entry") != std::string::npos) {
            within = line.find(parts[0]) != std::string::npos;
            found = 0;
        }
        if (within && std::regex_search(line, expression) && (wanted == 0 || ++found == wanted))
            line = std::regex_replace(line, expression, replacement);
        result += line;
    }
    return result;
}

bool unsupported(const char* call) {
    const auto& parts = asked();
    return parts.size() == 2 && parts[0] == "call" && parts[1] == call;
}

unsigned threads_of(unsigned threads) {
    const auto& parts = asked();
    return parts.size() == 2 && parts[0] == "threads" ? static_cast<unsigned>(std::stoul(parts[1]))
                                                      : threads;
}

} // namespace truestep::simulator
