// Splits a case's line into settings, and replaces drawn values by those that the user gave.
#include <truestep/gate/case_spec.hpp>

#include <cstdint>
#include <sstream>

#include <truestep/problem/mix64.hpp>

namespace truestep::gate {

namespace {

using Parts = std::vector<rc::Shrinkable<Change>>;

/// Shrinks one setting after the other.
rc::Shrinkable<Changes> shrinkable(Parts parts) {
    return rc::shrinkable::lambda(
        [parts] {
            Changes all;
            for (const rc::Shrinkable<Change>& part : parts)
                all.push_back(part.value());
            return all;
        },
        [parts] {
            rc::Seq<rc::Shrinkable<Changes>> all;
            for (std::size_t place = parts.size(); place > 0; --place)
                all = rc::seq::concat(rc::seq::map(parts[place - 1].shrinks(),
                                                   [parts, place](rc::Shrinkable<Change>&& smaller) {
                                                       Parts changed = parts;
                                                       changed[place - 1] = std::move(smaller);
                                                       return shrinkable(std::move(changed));
                                                   }),
                                      std::move(all));
            return all;
        });
}

} // namespace

rc::Gen<Change> changes_of_places(std::size_t count, std::function<void(void*, std::size_t)> set) {
    return rc::gen::map(from_to<std::size_t>(0, count - 1), [set = std::move(set)](std::size_t place) {
        return Change([=](void* run) { set(run, place); });
    });
}

rc::Gen<Changes> all_changes(std::vector<std::vector<rc::Gen<Change>>> streams) {
    return [streams = std::move(streams)](const rc::Random& random, int size) {
        Parts parts;
        rc::Random outer = random;
        for (const std::vector<rc::Gen<Change>>& stream : streams) {
            // A single stream begins behind the number that RapidCheck's build() takes for the case itself.
            rc::Random inner = outer.split();
            rc::Random& from = streams.size() == 1 ? outer : inner;
            for (const rc::Gen<Change>& part : stream)
                parts.push_back(part(from.split(), size));
        }
        return shrinkable(std::move(parts));
    };
}

const std::string& given_value(const std::vector<std::string>& values, const std::string& drawn,
                               const std::string& usual, const std::string& seed) {
    std::uint64_t hash = 0;
    for (const char letter : drawn + ' ' + seed)
        hash = problem::mix64(hash + static_cast<unsigned char>(letter) + 1);
    return values[drawn == usual ? 0 : hash % values.size()];
}

std::uint64_t random_number(std::int64_t seed, std::uint64_t use,
                            std::initializer_list<std::uint64_t> places) {
    std::uint64_t drawn = problem::mix64(static_cast<std::uint64_t>(seed) << 8U ^ use);
    for (const std::uint64_t place : places)
        drawn = problem::mix64(drawn ^ (place + 0x9e37'79b9'7f4a'7c15U));
    return drawn;
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
