// The declaration of a system's cases, one row per setting, from which the gate derives all functions for
// cases.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rapidcheck.h>

#include <truestep/gate/setting.hpp>
#include <truestep/gate/system.hpp>

namespace truestep::gate {

/// Chooses one of the values that a user gave for a setting, by the value that was drawn and the seed. The
/// usual value, to which cases shrink, chooses the first.
[[nodiscard]] const std::string& given_value(const std::vector<std::string>& values,
                                             const std::string& drawn, const std::string& usual,
                                             const std::string& seed);

/// A random number for that use at these places of a case, which its seed determines.
[[nodiscard]] std::uint64_t random_number(std::int64_t seed, std::uint64_t use,
                                          std::initializer_list<std::uint64_t> places);

/// The keys and values of a line. Throws truestep::Error if a key is not in `keys`.
[[nodiscard]] std::vector<std::pair<std::string, std::string>>
parts_of_line(const Line& line, const std::vector<std::string>& keys);

/// A feature that an implementation may lack.
template <class Case>
struct Feature {
    std::string name;
    std::function<void(Case&)> without; ///< changes a case to the nearest one that does not need it
    std::vector<Kind<Case>> kinds{};    ///< kinds of cases that do not exist without it
};

template <class Case>
struct CaseSpec {
    std::vector<Setting<Case>> settings; ///< in the order of a line
    /// A key that every line of this system has and no other system does; "": there is none.
    std::string own_key{};
    std::string usual_line{}; ///< the line of Case{} if it would be empty
    /// The keys in the order in which they are drawn and shrunk; each list has its own stream of random
    /// numbers. Settings in no list follow at the end of the last one, in their order.
    std::vector<std::vector<std::string>> draws{{}};
    /// Makes a valid case of what was drawn.
    std::function<void(Case&)> fits_drawn = [](Case&) {};
    /// Derives the settings that were not given from those that were. Throws truestep::Error if they do not
    /// go together.
    std::function<void(Case&, const std::set<std::string>& said)> fits = [](Case&, const auto&) {};
    std::vector<Feature<Case>> features{};

    // The matrix.
    std::vector<std::string> columns; ///< keys
    std::function<int(const Case&)> most_workers;
    /// Which of a setting's values make rows for an implementation.
    std::function<std::vector<std::string>(const Implementation&, const std::string& key,
                                           std::vector<std::string> values)>
        values_for = [](const Implementation&, const std::string&, std::vector<std::string> values) {
            return values;
        };
    /// Whether these values make their own row.
    std::function<bool(const Overrides& row, const Overrides& asked)> is_row =
        [](const Overrides&, const Overrides&) { return true; };
    /// Adjusts a drawn case to the values that a user gave.
    std::function<void(Case& run, const Case& drawn, const Overrides& overrides)> fits_pins =
        [](Case&, const Case&, const Overrides&) {};

    [[nodiscard]] const Setting<Case>& setting(const std::string& key) const {
        const auto found = std::ranges::find(settings, key, &Setting<Case>::key);
        if (found == settings.end())
            throw std::logic_error("there is no setting '" + key + "' in the specification of cases");
        return *found;
    }
    [[nodiscard]] Setting<Case>& setting(const std::string& key) {
        return const_cast<Setting<Case>&>(std::as_const(*this).setting(key)); // NOLINT: it is not const
    }

    [[nodiscard]] Line text(const Case& run) const {
        const Case usual;
        Line line;
        for (const Setting<Case>& one : settings)
            if (const std::string value = one.write(run); one.always_written || value != one.write(usual))
                line += (line.empty() ? "" : ",") + one.key + "=" + value;
        return line.empty() ? usual_line : line;
    }

    [[nodiscard]] Case parse(const Line& line) const {
        std::vector<std::string> keys;
        for (const Setting<Case>& one : settings)
            keys.push_back(one.key);
        Case run;
        std::set<std::string> said;
        for (const auto& [key, value] : parts_of_line(line, keys)) {
            setting(key).read(run, "case: " + key, value);
            said.insert(key);
        }
        if (!own_key.empty() && !said.contains(own_key))
            throw Error("case: '" + line + "' has no " + own_key + "=VALUE");
        fits(run, said);
        return run;
    }

    [[nodiscard]] rc::Gen<Case> cases() const {
        std::vector<std::vector<rc::Gen<Change>>> streams;
        std::set<std::string> listed;
        for (const std::vector<std::string>& keys : draws) {
            streams.emplace_back();
            for (const std::string& key : keys)
                streams.back().push_back(setting(key).drawn.value());
            listed.insert(keys.begin(), keys.end());
        }
        for (const Setting<Case>& one : settings)
            if (one.drawn && !listed.contains(one.key))
                streams.back().push_back(*one.drawn);
        return rc::gen::map(all_changes(std::move(streams)), [fit = fits_drawn](const Changes& changes) {
            Case run;
            for (const Change& change : changes)
                change(&run);
            fit(run);
            return run;
        });
    }

    /// The drawn case with the given values.
    [[nodiscard]] Case pinned(const Case& drawn, const Overrides& overrides) const {
        Case run = drawn;
        const Case usual;
        for (const Setting<Case>& one : settings)
            if (const auto found = overrides.find(one.option);
                !one.option.empty() && found != overrides.end() && !found->second.empty())
                one.read(run, "--" + one.option,
                         given_value(found->second, one.write(drawn), one.write(usual),
                                     setting("seed").write(drawn)));
        fits_pins(run, drawn, overrides);
        return fitted(run);
    }

    /// The nearest case for an implementation that lacks features.
    [[nodiscard]] Case without(Case run, const Unsupported& unsupported) const {
        for (const Feature<Case>& feature : features)
            if (unsupported.contains(feature.name))
                feature.without(run);
        return run;
    }

    [[nodiscard]] bool decided(const std::string& kind, const Overrides& overrides,
                               const Unsupported& unsupported) const {
        const auto has = [&kind](const std::vector<Kind<Case>>& kinds) {
            return std::ranges::find(kinds, kind, &Kind<Case>::name) != kinds.end();
        };
        return std::ranges::any_of(settings,
                                   [&](const Setting<Case>& one) {
                                       return overrides.contains(one.option) && has(one.decides);
                                   }) ||
               std::ranges::any_of(features, [&](const Feature<Case>& one) {
                   return unsupported.contains(one.name) && has(one.kinds);
               });
    }

    [[nodiscard]] std::vector<Overrides> rows(const Implementation& implementation,
                                              const Overrides& overrides) const {
        std::vector<Overrides> all{overrides};
        for (const std::string& key : columns) {
            const Setting<Case>& column = setting(key);
            const auto found = overrides.find(column.option);
            std::vector<Overrides> longer;
            for (const Overrides& row : all)
                for (const std::string& value : values_for(
                         implementation, key, found == overrides.end() ? column.usual : found->second)) {
                    longer.push_back(row);
                    longer.back()[column.option] = {value};
                }
            all = std::move(longer);
        }
        std::erase_if(all, [&](const Overrides& row) {
            return !goes_together(implementation, row) || !is_row(row, overrides);
        });
        return all;
    }

    /// The lines of drawn cases: with the given values, without unsupported features, and changed.
    [[nodiscard]] rc::Gen<Line> lines(const rc::Gen<Case>& drawn, const Overrides& overrides,
                                      const Unsupported& unsupported,
                                      const std::function<Case(Case)>& change) const {
        return rc::gen::map(drawn, [=, this](Case run) {
            return text(change(without(pinned(fitted(std::move(run)), overrides), unsupported)));
        });
    }

    /// A property of this system's cases; `change` makes the nearest case that it can judge.
    [[nodiscard]] Property property(
        int number, const std::string& name, const std::string& says,
        const std::function<CaseJudgement(const Implementation&, const Case&)>& judge,
        const Demands<Case>& at_least,
        const std::function<Case(Case)>& change = [](Case run) { return run; }) const {
        return {number,
                name,
                says,
                [this, change](const Overrides& overrides, const Unsupported& unsupported) {
                    return lines(rc::gen::map(cases(), change), overrides, unsupported, change);
                },
                [this, change, judge](const Implementation& implementation, const Line& line) {
                    return judge(implementation, change(parse(line)));
                },
                by_name(at_least),
                [](const Implementation&) { return std::string(); },
                [this, change](const Line& line, const Unsupported& unsupported) {
                    return text(change(without(parse(line), unsupported)));
                }};
    }

    /// Fills in the parts of the gate's system that follow from the cases. The specification must outlive
    /// it.
    void describe(System& system) const {
        system.parsed = [this](const Line& line) { return text(parse(line)); };
        system.most_workers = [this](const Line& line) { return most_workers(parse(line)); };
        for (const std::string& key : columns) {
            if (setting(key).option.empty() || setting(key).usual.empty())
                throw std::logic_error("the column '" + key + "' lacks an option, or values for rows");
            system.settings.push_back(key);
            if (const Setting<Case>& column = setting(key); column.option != key)
                system.options_of_settings[key] = column.option;
            system.overrides.push_back(pin(setting(key)));
        }
        for (const Setting<Case>& one : settings)
            if (!one.option.empty() && std::ranges::find(columns, one.key) == columns.end())
                system.overrides.push_back(pin(one));
        system.value_at_edges = [this](const Line& line, const std::string& key) -> std::string {
            const std::string value = setting(key).write(parse(line));
            const bool is_word = !value.empty() && std::isalpha(static_cast<unsigned char>(value[0])) != 0;
            return is_word ? value : value == setting(key).write(Case{}) ? "usual" : "another";
        };
        system.decided = [this](const std::string& kind, const Overrides& overrides,
                                const Unsupported& unsupported) {
            return decided(kind, overrides, unsupported);
        };
        system.rows = [this](const Implementation& implementation, const Overrides& overrides) {
            return rows(implementation, overrides);
        };
    }

  private:
    [[nodiscard]] Case fitted(Case run) const {
        std::set<std::string> said;
        for (const Setting<Case>& one : settings)
            said.insert(one.key);
        fits(run, said);
        return run;
    }

    /// Whether there is a case with all of these values whose ranks the implementation takes.
    [[nodiscard]] bool goes_together(const Implementation& implementation, const Overrides& row) const {
        const Case run = pinned(Case{}, row);
        return std::ranges::all_of(columns,
                                   [&](const std::string& key) {
                                       const Setting<Case>& column = setting(key);
                                       Case asked;
                                       column.read(asked, "--" + column.option,
                                                   row.at(column.option).front());
                                       return column.write(run) == column.write(asked);
                                   }) &&
               implementation.takes(most_workers(run));
    }

    [[nodiscard]] Override pin(const Setting<Case>& one) const {
        std::string usual;
        for (const std::string& value : one.usual)
            usual += (usual.empty() ? "; " : ",") + value;
        return {one.option, one.help + (usual.empty() ? "" : usual + " without it"), one.list,
                [this, &one](const std::string& value) {
                    Case run;
                    one.read(run, "--" + one.option, value);
                    if (!one.only_drawn.empty() && value == one.only_drawn)
                        throw Error("--" + one.option + " is '" + value +
                                    "', which only drawn cases have; use another");
                    fits(run, {one.key});
                }};
    }
};

/// A system with one implementation, "host", whose known bugs are planted in that itself: it is made of a
/// name, the bug's number and a group.
template <class Implementation, class Case>
System system_of_host(const std::string& name, const std::string& says, const CaseSpec<Case>& spec,
                      const std::vector<Property>& properties, const std::vector<KnownBug>& known_bugs) {
    System system;
    system.name = name;
    system.says = says;
    spec.describe(system);
    system.properties = properties;
    system.known_bugs = known_bugs;
    system.implementations = [](const std::shared_ptr<const Group>& group) {
        return Implementations{std::make_shared<Implementation>("host", 0, group)};
    };
    system.planted = [bugs = known_bugs.size()](int number, const std::shared_ptr<const Group>& group) {
        return std::make_shared<Implementation>(name_of_planted(number, bugs), number, group);
    };
    system.clean = {"host"};
    return system;
}

} // namespace truestep::gate
