#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>

/// Checks the required contents of a JSON file, and words the errors.
namespace truestep::report {

enum class ContentType {
    text,
    count,
    whole,
    number,
    number_or_infinity,
    truth,
    texts,
    status,
    object,
    list
};

struct Key {
    const char* name;
    ContentType want;
};

/// Checks one file. Errors are truestep::Error, "PATH: what; what to do".
class Shape {
  public:
    using Json = nlohmann::ordered_json;

    explicit Shape(std::string path) : path_(std::move(path)) {}

    [[nodiscard]] Error error(const std::string& what, const std::string& remedy) const;
    [[nodiscard]] Error malformed(const std::string& what) const;

    /// A value for a message: at most a line, without the inside of lists and objects, which may be
    /// deep.
    [[nodiscard]] static std::string shown(const Json& value);

    /// Requires an object with these keys.
    void keys(const Json& object, const std::string& where, std::initializer_list<Key> wanted) const;
    /// Checks all values of an object whose keys are free.
    void values(const Json& object, const std::string& where, ContentType want) const;
    void value(const Json& value, const std::string& where, ContentType want) const;
    /// The value of a key that must exist and may be null.
    [[nodiscard]] const Json& nullable(const Json& object, const std::string& where,
                                       const std::string& key) const;

    template <class Check>
    static void each(const Json& list, const std::string& where, Check check) {
        for (std::size_t i = 0; i < list.size(); ++i)
            check(list[i], where + "[" + std::to_string(i) + "]");
    }

  private:
    std::string path_;
};

} // namespace truestep::report
