# Helpers of the build: required packages with the command that installs them, one static library a
# folder, one cmocka program a test file.
find_package(PkgConfig REQUIRED)
include(CheckCCompilerFlag)

add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
                    -Wpointer-arith -Wformat=2 -Wvla -Werror -fno-omit-frame-pointer)
if(CMAKE_C_COMPILER_ID STREQUAL GNU)
    # What it finds depends on the optimizer and on sanitizers; messages are cut on purpose.
    add_compile_options(-Wno-format-truncation)
endif()
add_compile_definitions(_GNU_SOURCE)
include_directories(${CMAKE_SOURCE_DIR})

set(TB_SANITIZE "" CACHE STRING "sanitizers for everything but the injected library: address,undefined or thread")
if(TB_SANITIZE)
    add_compile_options(-fsanitize=${TB_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${TB_SANITIZE})
endif()

# tb_require(module debian-package): PkgConfig::<module>, or a fatal error that says what to type
function(tb_require module package)
    pkg_check_modules(${module} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(NOT ${module}_FOUND)
        message(FATAL_ERROR "cannot find '${module}': install it with: apt-get install ${package}")
    endif()
endfunction()

# tb_require_zydis(): Zydis::Zydis, which decodes instructions of x86-64; TB_X86: it is needed. It has no file of pkg-config
function(tb_require_zydis)
    set(TB_X86 OFF PARENT_SCOPE)
    if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        return()
    endif()
    find_package(zydis 4 QUIET CONFIG)
    if(NOT zydis_FOUND)
        message(FATAL_ERROR "cannot find 'zydis' 4: install it with: apt-get install libzydis-dev")
    endif()
    set_target_properties(Zydis::Zydis PROPERTIES IMPORTED_GLOBAL TRUE)
    set(TB_X86 ON PARENT_SCOPE)
endfunction()

function(tb_add_folders)
    foreach(folder IN LISTS ARGN)
        if(EXISTS ${CMAKE_SOURCE_DIR}/${folder}/CMakeLists.txt)
            add_subdirectory(${folder})
        endif()
    endforeach()
endfunction()

# tb_library(name SOURCES a.c b.c USES lib...): static library tb_<name>
function(tb_library name)
    cmake_parse_arguments(A "" "" "SOURCES;USES" ${ARGN})
    add_library(tb_${name} STATIC ${A_SOURCES})
    target_link_libraries(tb_${name} PUBLIC ${A_USES})
endfunction()

# tb_test(module topic USES lib... [LABELS ...]): tests/<module>/test_<topic>.c as ctest <module>.<topic>
function(tb_test module topic)
    cmake_parse_arguments(A "" "TIMEOUT" "USES;LABELS" ${ARGN})
    if(NOT A_LABELS)
        set(A_LABELS unit)
    endif()
    if(NOT A_TIMEOUT)
        set(A_TIMEOUT 300)
    endif()
    set(exe test_${module}_${topic})
    add_executable(${exe} ${CMAKE_SOURCE_DIR}/tests/${module}/test_${topic}.c)
    target_link_libraries(${exe} PRIVATE ${A_USES} PkgConfig::cmocka)
    add_test(NAME ${module}.${topic} COMMAND ${exe})
    set_tests_properties(${module}.${topic} PROPERTIES LABELS "${A_LABELS}" SKIP_RETURN_CODE 77
        TIMEOUT ${A_TIMEOUT}
        ENVIRONMENT "TB_SOURCE_DIR=${CMAKE_SOURCE_DIR};TB_BUILD_DIR=${CMAKE_BINARY_DIR}")
endfunction()

# tb_link_time(TARGET) - optimise it as one at its linking: the way of a launch through an injected library goes through
# ten files. Left out where the compiler cannot, and where code is instrumented.
include(CheckIPOSupported)
function(tb_link_time target)
    if(NOT DEFINED TB_LINK_TIME)
        check_ipo_supported(RESULT can LANGUAGES C)
        set(TB_LINK_TIME ${can} CACHE INTERNAL "link-time optimisation works")
    endif()
    if(TB_LINK_TIME AND CMAKE_C_COMPILER_ID STREQUAL GNU AND NOT TB_SANITIZE)
        target_compile_options(${target} PRIVATE -flto) # not the property: clang-tidy cannot read all that it adds
        target_link_options(${target} PRIVATE -flto=auto)
    endif()
endfunction()
