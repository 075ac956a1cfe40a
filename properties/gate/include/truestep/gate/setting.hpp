// One setting of a system's cases: how it is written, read, drawn and given as an option.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include <truestep/gate/kind.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::gate {

/// A whole number of that range. It shrinks towards the first.
template <class Number>
rc::Gen<Number> from_to(Number first, Number last) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Number>(first, last + 1));
}

/// One of the values. It shrinks towards the first: RapidCheck's own element() does not shrink, and its
/// inRange() would seldom reach the last values.
template <class Value>
struct OneOf {
    std::vector<Value> values;

    /// RapidCheck calls a generator so: rc::Gen<Value>(one_of(...)) compiles.
    rc::Shrinkable<Value> operator()(const rc::Random& random, int size) const {
        return rc::shrinkable::map(from_to<std::size_t>(0, values.size() - 1)(random, size),
                                   [all = values](std::size_t place) { return all[place]; });
    }
};
template <class Value>
OneOf<Value> one_of(std::vector<Value> values) {
    return {std::move(values)};
}

/// Writes a drawn value into a case. The case's type is not named, so that RapidCheck's templates are
/// compiled once for all systems, not once for each setting of each.
using Change = std::function<void(void*)>;
using Changes = std::vector<Change>;

/// The change that `set` makes with one of `count` places.
[[nodiscard]] rc::Gen<Change> changes_of_places(std::size_t count,
                                                std::function<void(void*, std::size_t)> set);
/// One change of each generator of each stream, which shrink one after the other.
[[nodiscard]] rc::Gen<Changes> all_changes(std::vector<std::vector<rc::Gen<Change>>> streams);

/// "a, b or c".
[[nodiscard]] std::string one_of_names(const std::vector<std::string>& names);

/// One setting of a case.
template <class Case>
struct Setting {
    /// How a value is written and read. `read` throws truestep::Error that begins with `name`.
    using Write = std::function<std::string(const Case&)>;
    using Read = std::function<void(Case&, const std::string& name, const std::string& text)>;

    std::string key; ///< its name in a line
    Write write;
    Read read;
    bool always_written = false; ///< also if it is as in Case{}
    std::optional<rc::Gen<Change>> drawn{};
    std::string option{}; ///< the option that pins cases to its values; "": there is none
    std::string help{};
    bool list = true;                  ///< the option takes several values
    std::string only_drawn{};          ///< a value that users may not give
    std::vector<std::string> usual{};  ///< its values in the matrix, if the user gives none
    std::vector<Kind<Case>> decides{}; ///< kinds of cases that its option can make rare

    Setting always() && {
        always_written = true;
        return std::move(*this);
    }
    template <class Value>
    Setting draws(rc::Gen<Value> values, std::invocable<Case&, Value> auto set) && {
        const std::function<void(Case&, const Value&)> any = set;
        drawn =
            rc::gen::map(std::move(values), std::function<Change(const Value&)>([any](const Value& value) {
                             return [=](void* run) { any(*static_cast<Case*>(run), value); };
                         }));
        return std::move(*this);
    }
    template <class Value>
    Setting draws(const OneOf<Value>& from, std::invocable<Case&, Value> auto set) && {
        drawn = changes_of_places(from.values.size(),
                                  [values = from.values, set](void* run, std::size_t place) {
                                      set(*static_cast<Case*>(run), values[place]);
                                  });
        return std::move(*this);
    }
    template <class Value>
    Setting draws(const auto& values, Value Case::*member) && {
        return std::move(*this).draws(values,
                                      [member](Case& run, const Value& value) { run.*member = value; });
    }
    Setting asked(const std::string& told, std::vector<Kind<Case>> kinds = {}) && {
        option = key;
        std::ranges::replace(option, '_', '-');
        help = told;
        decides = std::move(kinds);
        return std::move(*this);
    }
    Setting named(const std::string& other) && {
        option = other;
        return std::move(*this);
    }
    Setting one_text() && {
        list = false;
        return std::move(*this);
    }
    Setting never_asked(const std::string& value) && {
        only_drawn = value;
        return std::move(*this);
    }
    Setting in_rows(std::vector<std::string> values) && {
        usual = std::move(values);
        return std::move(*this);
    }
};

template <class Case, class Number>
Setting<Case> number(const std::string& key, Number Case::*member,
                     std::type_identity_t<Number> least = std::numeric_limits<Number>::lowest(),
                     std::type_identity_t<Number> most = std::numeric_limits<Number>::max()) {
    const auto written = [](Number value) {
        if constexpr (std::floating_point<Number>)
            return shortest(value);
        else
            return std::to_string(value);
    };
    const std::string range = most == std::numeric_limits<Number>::max()
                                  ? ""
                                  : " from " + written(least) + " to " + written(most);
    return {.key = key,
            .write = [member, written](const Case& run) { return written(run.*member); },
            .read =
                [=](Case& run, const std::string& name, const std::string& text) {
                    const auto value = parse_number<Number>(text);
                    if (!value || !(*value >= least && *value <= most))
                        throw Error(name + " is '" + text + "'; it must be a number" + range);
                    run.*member = *value;
                }};
}

/// A setting of a type whose values have a `name`; `parse` throws.
template <class Case, class Value, class Parse>
requires std::invocable<Parse, std::string> Setting<Case> word(const std::string& key, Value Case::*member,
                                                               const Parse& parse) {
    return {.key = key,
            .write = [member](const Case& run) { return std::string(name(run.*member)); },
            .read = [member, parse](Case& run, const std::string&,
                                    const std::string& text) { run.*member = parse(text); }};
}

/// A setting that is written as one of a list of names.
template <class Case, class Value>
Setting<Case> word(const std::string& key, Value Case::*member, const std::vector<std::string>& names) {
    return {.key = key,
            .write = [member,
                      names](const Case& run) { return names.at(static_cast<std::size_t>(run.*member)); },
            .read =
                [member, names](Case& run, const std::string& name, const std::string& text) {
                    const auto found = std::ranges::find(names, text);
                    if (found == names.end())
                        throw Error(name + " is '" + text + "'; it must be " + one_of_names(names));
                    run.*member = static_cast<Value>(found - names.begin());
                }};
}

} // namespace truestep::gate
