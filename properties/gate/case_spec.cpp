// Splits a case's line into settings, and replaces drawn values by those that the user gave.
#include <truestep/gate/case_spec.hpp>

#include <cstdint>
#include <sstream>

#include <truestep/problem/mix64.hpp>

namespace truestep::gate {

const std::string& given_value(const std::vector<std::string>& values, const std::string& drawn,
                               const std::string& usual, const std::string& seed) {
    std::uint64_t hash = 0;
    for (const char letter : drawn + ' ' + seed)
        hash = problem::mix64(hash + static_cast<unsigned char>(letter) + 1);
    return values[drawn == usual ? 0 : hash % values.size()];
}

std::vector<std::pair<std::string, std::string>> parts_of_line(const Line& line,
                                                               const std::vector<std::string>& keys) {
    std::string known;
    for (const std::string& key : keys)
        known += (known.empty() ? "" : ", ") + key;
    std::vector<std::pair<std::string, std::string>> all;
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, ',') || all.empty();) {
        const std::size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        if (equals == std::string::npos || std::ranges::find(keys, key) == keys.end())
            throw Error("case: '" + part + "' is not KEY=VALUE with one of the keys " + known);
        if (std::ranges::find(all, key, &std::pair<std::string, std::string>::first) != all.end())
            throw Error("case: " + key + " is given twice; leave one out");
        all.emplace_back(key, part.substr(equals + 1));
    }
    return all;
}

std::string one_of_names(const std::vector<std::string>& names) {
    std::string all;
    for (std::size_t place = 0; place < names.size(); ++place)
        all += (place == 0 ? "" : place + 1 == names.size() ? " or " : ", ") + names[place];
    return all;
}

} // namespace truestep::gate
